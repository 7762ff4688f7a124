"""Calls of a retry library, with its defaults, at the times of a plan.

The plan is a line of JSON on stdin, which is awaited after the imports. The result is a line of JSON on stdout. All times
are nanoseconds since the server started, except for the deadline and the timeout, which are seconds.
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
    def __init__(self, plan):
        self.zero = time.monotonic_ns() - plan["now"]
        self.host, self.port = plan["host"], plan["port"]
        self.begins = plan["begins"]
        self.deadline, self.timeout = plan["deadline"], plan["timeout"]
        self.calls, self.woke, self.broken = [], [], 0

    def now(self):
        return time.monotonic_ns() - self.zero

    def seconds_until(self, at):
        return max(0, at - self.now()) / 1e9

    def ended(self, started, succeeded):
        """What is too late for the caller has failed."""
        now = self.now()
        self.calls.append((started, now, succeeded and now - started <= self.deadline * 1e9))


class Refused(Exception):
    pass


def asynchronous(run, decorate):
    import aiohttp

    async def main():
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:

            @decorate
            async def attempt(number):
                try:
                    async with asyncio.timeout(run.timeout):
                        async with session.get(f"http://{run.host}:{run.port}/{number}") as response:
                            await response.read()
                except aiohttp.ClientError:
                    run.broken += 1
                    raise
                if response.status != 200:
                    raise Refused

            async def call(number):
                started = run.now()
                succeeded = False
                try:
                    async with asyncio.timeout(run.deadline):
                        await attempt(number)
                        succeeded = True
                except Exception:
                    pass
                run.ended(started, succeeded)

            async def probe():
                while True:
                    wanted = run.now() + int(PROBE_S * 1e9)
                    await asyncio.sleep(PROBE_S)
                    run.woke.append((wanted, run.now()))

            probing = asyncio.create_task(probe())
            tasks = []
            for number, begin in enumerate(run.begins):
                await asyncio.sleep(run.seconds_until(begin))
                run.woke.append((begin, run.now()))
                tasks.append(asyncio.create_task(call(number)))
            await asyncio.gather(*tasks)
            probing.cancel()

    asyncio.run(main())


def tenacity(run):
    import tenacity

    asynchronous(run, tenacity.retry)


def backoff(run):
    import backoff

    asynchronous(run, backoff.on_exception(backoff.expo, Exception))


def stamina(run):
    import stamina

    # It would log every retry.
    stamina.instrumentation.set_on_retry_hooks([])
    asynchronous(run, stamina.retry(on=Exception))


def urllib3(run):
    import urllib3
    from urllib3.exceptions import MaxRetryError, ReadTimeoutError, ResponseError

    retries = urllib3.Retry.DEFAULT.new(status_forcelist=[503])
    # It has no deadline for all attempts together.
    timeout = urllib3.Timeout(total=run.timeout or run.deadline)
    pool = urllib3.HTTPConnectionPool(run.host, run.port, maxsize=THREADS)

    def call(number, begin):
        started = run.now()
        run.woke.append((begin, started))
        succeeded = False
        try:
            pool.request("GET", f"/{number}", retries=retries, timeout=timeout)
            succeeded = True
        except MaxRetryError as error:
            run.broken += not isinstance(error.reason, (ReadTimeoutError, ResponseError))
        run.ended(started, succeeded)

    def probe():
        while True:
            wanted = run.now() + int(PROBE_S * 1e9)
            time.sleep(PROBE_S)
            run.woke.append((wanted, run.now()))

    threading.Thread(target=probe, daemon=True).start()
    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        for number, begin in enumerate(run.begins):
            time.sleep(run.seconds_until(begin))
            threads.submit(call, number, begin)


def main():
    library = {"tenacity": tenacity, "backoff": backoff, "stamina": stamina, "urllib3": urllib3}[sys.argv[1]]
    __import__(sys.argv[1])
    __import__("aiohttp")
    gc.freeze()
    gc.disable()
    print("ready", flush=True)
    run = Run(json.loads(sys.stdin.readline()))
    library(run)
    print(json.dumps({"calls": run.calls, "woke": run.woke, "broken": run.broken}))


main()
