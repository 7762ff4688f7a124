"""Calls of a retry library, with its defaults, at the times of a plan.

The arguments are the library and, as JSON, what its clients have to know. The plan is a line of JSON on stdin, which is
awaited after the imports. The result is a line of JSON on stdout. All times are nanoseconds since the server started,
except for the deadline and the timeout, which are seconds.
"""

import asyncio
import concurrent.futures
import gc
import json
import sys
import threading
import time

PROBE_S = 0.005
# More calls than can be in progress at once.
THREADS = 512


class Run:
    def __init__(self, known):
        self.instances = known["instances"]
        self.deadline, self.timeout = known["deadline"], known["timeout"]
        self.calls, self.woke, self.broken = [], [], 0

    def start(self, plan):
        self.zero = time.monotonic_ns() - plan["now"]
        self.host, self.port = plan["host"], plan["port"]
        self.begins = plan["begins"]

    def now(self):
        return time.monotonic_ns() - self.zero

    def seconds_until(self, at):
        return max(0, at - self.now()) / 1e9

    def ended(self, begin, succeeded):
        """What is too late for the caller has failed."""
        now = self.now()
        self.calls.append((begin, now, succeeded and now - begin <= self.deadline * 1e9))


class Refused(Exception):
    pass


def asynchronous(run, decorate):
    import aiohttp

    async def main():
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:

            @decorate
            async def attempt(number, instance):
                try:
                    async with asyncio.timeout(run.timeout):
                        async with session.get(f"http://{run.host}:{run.port}/{number}") as response:
                            await response.read()
                except aiohttp.ClientError:
                    run.broken += 1
                    raise
                if response.status != 200:
                    raise Refused

            async def call(number, begin, instance):
                succeeded = False
                try:
                    async with asyncio.timeout(run.deadline):
                        await attempt(number, instance)
                        succeeded = True
                except Exception:
                    pass
                run.ended(begin, succeeded)

            async def probe():
                while True:
                    wanted = run.now() + int(PROBE_S * 1e9)
                    await asyncio.sleep(PROBE_S)
                    run.woke.append((wanted, run.now()))

            probing = asyncio.create_task(probe())
            tasks = []
            for number, (begin, instance) in enumerate(run.begins):
                await asyncio.sleep(run.seconds_until(begin))
                run.woke.append((begin, run.now()))
                tasks.append(asyncio.create_task(call(number, begin, instance)))
            await asyncio.gather(*tasks)
            probing.cancel()

    return lambda: asyncio.run(main())


def threaded(run, attempts):
    """`attempts` makes all attempts of a call, and returns whether one of them succeeded."""

    def call(number, begin, instance):
        run.woke.append((begin, run.now()))
        run.ended(begin, attempts(number, instance))

    def probe():
        while True:
            wanted = run.now() + int(PROBE_S * 1e9)
            time.sleep(PROBE_S)
            run.woke.append((wanted, run.now()))

    def main():
        threading.Thread(target=probe, daemon=True).start()
        with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
            for number, (begin, instance) in enumerate(run.begins):
                time.sleep(run.seconds_until(begin))
                threads.submit(call, number, begin, instance)

    return main


def tenacity(run):
    import tenacity

    return asynchronous(run, tenacity.retry)


def backoff(run):
    import backoff

    return asynchronous(run, backoff.on_exception(backoff.expo, Exception))


def stamina(run):
    import stamina

    # It would log every retry.
    stamina.instrumentation.set_on_retry_hooks([])
    return asynchronous(run, stamina.retry(on=Exception))


def pyfailsafe(run):
    from failsafe import CircuitBreaker, Failsafe, RetryPolicy

    def instance():
        return Failsafe(retry_policy=RetryPolicy(), circuit_breaker=CircuitBreaker())

    instances = [instance() for _ in range(run.instances)]

    def decorate(attempt):
        return lambda number, instance: instances[instance].run(attempt, number, instance)

    return asynchronous(run, decorate)


def urllib3(run):
    import urllib3
    from urllib3.exceptions import MaxRetryError, ReadTimeoutError, ResponseError

    retries = urllib3.Retry.DEFAULT.new(status_forcelist=[503])
    # It has no deadline for all attempts together.
    timeout = urllib3.Timeout(total=run.timeout or run.deadline)
    pools = urllib3.PoolManager(maxsize=THREADS)

    def attempts(number, _):
        url = f"http://{run.host}:{run.port}/{number}"
        try:
            pools.request("GET", url, retries=retries, timeout=timeout)
            return True
        except MaxRetryError as error:
            run.broken += not isinstance(error.reason, (ReadTimeoutError, ResponseError))
            return False

    return threaded(run, attempts)


def botocore(run):
    import botocore.session
    from botocore.config import Config
    from botocore.exceptions import ClientError, ReadTimeoutError

    # A client takes too long to make after the start, when the port is known.
    unknown = "127.0.0.1:1"
    session = botocore.session.Session()
    config = Config(
        signature_version=botocore.UNSIGNED,
        max_pool_connections=THREADS,
        # It has no deadline for all attempts together.
        read_timeout=run.timeout or run.deadline,
        retries={"mode": "standard"},
        s3={"addressing_style": "path"},
    )

    def address(request, **_):
        request.url = request.url.replace(unknown, f"{run.host}:{run.port}")

    def client():
        client = session.create_client("s3", "us-east-1", endpoint_url=f"http://{unknown}", config=config)
        client.meta.events.register("request-created.s3", address)
        return client

    clients = [client() for _ in range(run.instances)]

    def attempts(number, instance):
        try:
            # The request that has only this path.
            clients[instance].head_bucket(Bucket=str(number))
            return True
        except (ClientError, ReadTimeoutError):
            return False
        except Exception:
            run.broken += 1
            return False

    return threaded(run, attempts)


LIBRARIES = [tenacity, backoff, stamina, pyfailsafe, urllib3, botocore]


def main():
    library = next(library for library in LIBRARIES if library.__name__ == sys.argv[1])
    run = Run(json.loads(sys.argv[2]))
    start = library(run)
    gc.freeze()
    gc.disable()
    print("ready", flush=True)
    run.start(json.loads(sys.stdin.readline()))
    start()
    print(json.dumps({"calls": run.calls, "woke": run.woke, "broken": run.broken}))


main()
