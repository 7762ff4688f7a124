"""The loop of our million callers as SimPy's users write it, without budget, deadline or any measurement.

Prints the events and the seconds that they took, the processes' start included.
"""

import random
import sys
import time

import simpy

events = 0


def caller(env, draw):
    global events
    while True:
        yield env.timeout(draw() * 4.0)
        events += 1
        for ceiling in (1.0, 2.0, 4.0):
            if draw() < 0.5:
                break
            yield env.timeout(draw() * ceiling)
            events += 1


random.seed(1)
began = time.perf_counter()
env = simpy.Environment()
for _ in range(int(sys.argv[1])):
    env.process(caller(env, random.random))
env.run(until=float(sys.argv[2]))
print(events, time.perf_counter() - began)
