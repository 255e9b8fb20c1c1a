// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"minne/internal/lab"
	"minne/internal/lab/traffic"
)

// A flood of beginnings (rDoS): every packet is one of a new connection, so whoever keeps
// state has the most work with it. Beside it run connections that were there before.
//
// The flood has a processor of its own, and so has its part of the router: the ports have two
// queues in each direction, one for each processor, as network cards have. So
// what is seen is whether the flood takes the established connections' entries, locks or
// memory away, not whether one queue holds more than fits.
const floodQueues = 2

// Flooded is what became of established connections beside a flood.
type Flooded struct {
	Rate       float64 // packets of the connections per second: half of what the router forwards of them without loss
	Sent, Lost uint64  // of those, beside the flood
	LostAlone  uint64  // of as many, without it
	Flood      uint64  // packets of the flood
}

// Flood sends packets of the first n connections at half the rate that the router forwards of them, for a
// while alone, and for a while beside packets between random hosts and ports at the most that the generator makes.
// Afterwards the router's table of connections may be full, so it is the last thing to do with it.
func (t *Translators) Flood(ctx context.Context, n int, while time.Duration) (f Flooded, err error) {
	if runtime.NumCPU() < 2 {
		return f, errors.New("a flood during other traffic needs two processors; this machine has one")
	}
	load, err := t.Fast.both(n)
	if err != nil {
		return f, err
	}
	flood, err := t.randomLoad(randomPackets(world, traffic.MaxDestinations))
	if err != nil {
		return f, err
	}
	most, err := Measure(ctx, Side{t.Fast.Path, load}, 5)
	if err != nil {
		return f, err
	}
	f.Rate = most.PacketsPerSecond / 2
	o := traffic.Order{Frames: uint64(math.Round(f.Rate * while.Seconds())), Rate: f.Rate}
	if f.LostAlone, _, err = t.duringFlood(ctx, o, load, nil, &f); err != nil {
		return f, err
	}
	f.Lost, f.Sent, err = t.duringFlood(ctx, o, load, flood, &f)
	return f, err
}

// duringFlood sends the load and, unless it is nil, a flood next to it.
func (t *Translators) duringFlood(ctx context.Context, o traffic.Order, load, flood *Load, f *Flooded) (lost, sent uint64, err error) {
	if err := t.Fast.expect(load, false, t.Fast.sink, t.Fast.macBytes); err != nil {
		return 0, 0, err
	}
	if err := t.sink.TakeAll(true); err != nil { // what comes out of the flood must not keep the tester's kernel busy
		return 0, 0, err
	}
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	flooded := make(chan error, 1)
	if flood == nil {
		flooded <- nil
	} else {
		before := flood.generator.Sequence() // of an earlier flood
		go func() { flooded <- t.flood(flooding, flood, f) }()
		if err := begun(flood, before, flooded); err != nil {
			return 0, 0, err
		}
	}
	trial, err := t.Fast.send(ctx, load, o)
	stop()
	err = errors.Join(err, <-flooded)
	if err == nil && trial.Arrived.Wrong() != "" {
		err = fmt.Errorf("%s forwards wrongly during a flood: %s", t.Fast.Name, trial.Arrived.Wrong())
	}
	return trial.Lost, trial.Sent.Frames, err
}

// floodTime is how long a flood may take to begin on a busy machine.
const floodTime = 30 * time.Second

// begun waits until a flood has sent something: a load that ran before it would prove nothing.
func begun(flood *Load, before uint64, flooded chan error) error {
	end := time.Now().Add(floodTime)
	for n := before; n == 0 || n == before; n = flood.generator.Sequence() {
		time.Sleep(time.Millisecond)
		select {
		case err := <-flooded:
			return errors.Join(errors.New("the flood ended before the load began"), err)
		default:
		}
		if time.Now().After(end) {
			return fmt.Errorf("the flood did not begin within %v", floodTime)
		}
	}
	return nil
}

// spread has each processor send by a queue of its own through a port, as drivers of network cards do. The kernel would else
// choose queues by hashes, and what it forwards of the flood would fill the ring of the sink's other queue.
func spread(ctx context.Context, node *lab.Running, port string) error {
	var script strings.Builder
	script.WriteString("mount -t sysfs sysfs /sys")
	for queue := range floodQueues {
		words := make([]string, (runtime.NumCPU()+31)/32) // the highest first
		for i := range words {
			mask := uint32(0)
			for cpu := 32 * i; cpu < min(32*i+32, runtime.NumCPU()); cpu++ {
				if cpu%floodQueues == queue {
					mask |= 1 << (cpu % 32)
				}
			}
			words[len(words)-1-i] = fmt.Sprintf("%08x", mask)
		}
		fmt.Fprintf(&script, " && echo %s > /sys/class/net/%s/queues/tx-%d/xps_cpus", strings.Join(words, ","), port, queue)
	}
	_, err := node.Run(ctx, "unshare", "--mount", "sh", "-c", script.String()) // sysfs shows the namespace of whoever mounts it
	return err
}

// flood sends until ctx ends, on the last processor but one; connections are sent on the last.
func (t *Translators) flood(ctx context.Context, load *Load, f *Flooded) error {
	load.cpu = t.cpu - 1
	sent, err := t.Fast.emit(ctx, load, traffic.Order{})
	f.Flood = sent.Frames
	return err
}
