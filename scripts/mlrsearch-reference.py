#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the FD.io project's MLRsearch on simulated devices and writes what it finds.

The devices are those of internal/testing/simulated: same formulas, same chance. A test
of internal/lab/search lets Minne's own search run on them too and compares. To
write the fixture anew:

    python3 -m venv /tmp/mlrsearch && /tmp/mlrsearch/bin/pip install MLRsearch==1.2.1
    /tmp/mlrsearch/bin/python scripts/mlrsearch-reference.py internal/lab/search/testdata/reference.json

It takes a second. Without an argument the fixture goes to standard output.
"""

import json
import math
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

MIN_LOAD, MAX_LOAD = 10_000.0, 2_000_000.0  # frames per second
SEEDS = 5

# Devices: fields of simulated.Device by their Go names; durations in seconds. The
# capacity of each run is drawn from its seed, but for those that have one here.
SHAPES = {
    "steady": {},
    "buffered": {"Buffer": 5000},
    "fading": {"Fade": 0.01},
    "fading a lot": {"Fade": 0.05, "Buffer": 500},
    "spiky": {"SpikeRate": 0.3, "SpikeSize": 400},
    "soft": {"Knee": 0.01, "KneeLoss": 0.002},
    "tiring": {"Tires": 0.1, "TiresAfter": 5.0, "Fade": 0.002},
    "slow tester": {"Fade": 0.01, "TesterRate": 700_000.0, "Capacity": 900_000.0},
    "hopeless": {"Fade": 0.01, "Capacity": 9_000.0},
    "boundless": {"SpikeRate": 0.1, "SpikeSize": 20, "Capacity": 3_000_000.0},
}


def goal(loss, exceed, final, total, initial, width):
    return {"loss": loss, "exceed": exceed, "final": final, "sum": total, "initial": initial, "width": width}


GOALS = {
    "NDR and PDR": [goal(0.0, 0.5, 1.0, 21.0, 1.0, 0.005), goal(0.005, 0.5, 1.0, 21.0, 1.0, 0.005)],
    "RFC 2544": [goal(0.0, 0.0, 60.0, 60.0, 1.0, 0.005)],
    "TST009 and RFC 2544": [goal(0.0, 0.5, 60.0, 120.0, 60.0, 0.01), goal(0.0, 0.0, 10.0, 10.0, 1.0, 0.005)],
    "quick": [goal(0.0, 0.5, 0.5, 3.5, 0.5, 0.02), goal(0.005, 0.5, 0.5, 3.5, 0.5, 0.02), goal(0.1, 0.25, 0.5, 2.0, 0.5, 0.03)],
}

MASK = (1 << 64) - 1


def mix(x):
    """The output function of SplitMix64."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def draw(seed, load, ordinal, use):
    """A number in [0, 1), as chance.draw in internal/testing/simulated/chance.go."""
    h = mix(seed)
    for v in (load, ordinal, use):
        h = mix(h ^ v)
    return (h >> 11) / (1 << 53)


class Device(AbstractMeasurer):
    """simulated.Device, as far as a search sees it."""

    def __init__(self, seed, capacity, shape):
        self.seed, self.capacity, self.shape = seed, capacity, shape
        self.seen = {}
        self.trials = 0
        self.seconds = 0.0

    def of(self, field):
        return self.shape.get(field, 0.0)

    def measure(self, intended_duration, intended_load):
        rate = math.floor(intended_load + 0.5)
        ordinal = self.seen.get(rate, 0)
        self.seen[rate] = ordinal + 1
        self.trials += 1
        self.seconds += intended_duration
        # Go keeps durations in whole nanoseconds.
        seconds = math.floor(intended_duration * 1e9) / 1e9
        intended = math.floor(intended_load * seconds + 0.5)
        sent = intended
        if tester := self.of("TesterRate"):
            sent = min(sent, math.floor(min(intended_load, tester) * seconds + 0.5))
        luck = lambda use: draw(self.seed, rate, ordinal, use)
        kept = min(sent, self.room(seconds, luck) * seconds + self.of("Buffer"))
        kept -= self.noise(sent / seconds, seconds, sent, luck)
        received = max(0, math.floor(kept + 0.5))
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            intended_count=intended,
            offered_count=sent,
            forwarding_count=received,
        )

    def room(self, seconds, luck):
        c = self.capacity
        if fade := self.of("Fade"):
            c *= 1 - min(1, -fade * math.log(1 - luck(0)))
        if tires := self.of("Tires"):
            c *= 1 - tires * (1 - math.exp(-seconds / self.of("TiresAfter")))
        return c

    def noise(self, rate, seconds, sent, luck):
        lost = 0.0
        if spikes := self.of("SpikeRate"):
            if luck(1) < 1 - math.exp(-spikes * seconds * rate / self.capacity):
                lost += math.floor(self.of("SpikeSize") * (0.5 + luck(2)) + 0.5)
        if knee := self.of("Knee"):
            if luck(3) < 1 / (1 + math.exp((1 - rate / self.capacity) / knee)):
                lost += sent * self.of("KneeLoss")
        return lost


def search(device, goals):
    config = Config()
    config.goals = [
        SearchGoal(
            loss_ratio=g["loss"],
            exceed_ratio=g["exceed"],
            relative_width=g["width"],
            initial_trial_duration=g["initial"],
            final_trial_duration=g["final"],
            duration_sum=g["sum"],
            preceding_targets=2,
            expansion_coefficient=2,
            fail_fast=False,
        )
        for g in goals
    ]
    # The limits last, and in this order: each is checked against the other.
    config.max_load, config.min_load = MAX_LOAD, MIN_LOAD
    config.search_duration_max, config.warmup_duration = 600.0, None
    found = MultipleLossRatioSearch(config).search(device, debug=lambda text: None)
    results = []
    for g in config.goals:
        r = found[g]
        lower, upper = r.relevant_lower_bound, r.relevant_upper_bound
        results.append(
            [
                round(float(lower), 3) if lower else 0,
                round(float(upper), 3) if upper else 0,
                round(float(r.conditional_throughput), 3) if lower else 0,
            ]
        )
    return results


def main():
    runs, seed = [], 0
    for shape in SHAPES:
        for goals in GOALS:
            for _ in range(SEEDS):
                seed += 1
                capacity = SHAPES[shape].get("Capacity", math.floor(50_000 * 30 ** draw(seed, 0, 0, 9)))
                device = Device(seed, capacity, SHAPES[shape])
                results = search(device, GOALS[goals])
                runs.append([shape, goals, seed, capacity, device.trials, round(device.seconds, 3), results])
    head = {"reference": "MLRsearch 1.2.1", "min_load": MIN_LOAD, "max_load": MAX_LOAD, "shapes": SHAPES, "goals": GOALS}
    lines = ",\n".join(json.dumps(r, separators=(",", ":")) for r in runs)
    text = json.dumps(head, indent=1)[:-2] + ',\n "runs": [\n' + lines + "\n ]\n}\n"
    with open(sys.argv[1], "w", encoding="utf-8") if len(sys.argv) > 1 else sys.stdout as out:
        out.write(text)


main()
