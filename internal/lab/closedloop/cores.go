// SPDX-License-Identifier: Apache-2.0

package closedloop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"time"

	"minne/internal/lab/device"
	"minne/internal/lab/result"
	"minne/internal/lab/statistics"
	"minne/internal/lab/traffic"
)

// Cores is what the machine's two last processors send at once, each by a queue of its own on every port, through one
// router: the path from the generator to the sink of a frame is walked by the processor that sends it.
type Cores struct {
	*Path
	Loads [2]*Load
}

// NewCores builds a Minne router whose ports have two queues. direct is the same without the router: what the
// machine itself allows. The caller closes the rig.
func NewCores(ctx context.Context, means device.Means) (router, direct *Cores, r *Rig, err error) {
	if err := twoProcessors(); err != nil {
		return nil, nil, nil, err
	}
	if r, err = NewRig(ctx, means, Place{Name: "router", Device: device.Spec{Kind: device.Minne}, Routes: HostRoutes(), Queues: 2}); err != nil {
		return nil, nil, nil, err
	}
	var loads [2]*Load
	for i, stream := range []uint8{stream4, secondStream4} {
		if loads[i], err = r.loadTo([]netip.Addr{nth(device.OutHosts[0].Addr(), 1+i)}, stream, uint16(40000+i)); err != nil {
			return nil, nil, nil, errors.Join(err, r.Close())
		}
	}
	share(loads)
	router, direct = &Cores{r.Path("router"), loads}, &Cores{r.Direct, loads}
	for _, l := range loads {
		if err := router.AwaitFast(ctx, l); err != nil {
			return nil, nil, nil, errors.Join(err, r.Close())
		}
	}
	return router, direct, r, nil
}

func twoProcessors() error {
	if runtime.NumCPU() < 2 {
		return errors.New("this needs two processors; the machine has one")
	}
	return nil
}

// nth is the address that is so much higher.
func nth(a netip.Addr, n int) netip.Addr {
	for range n {
		a = a.Next()
	}
	return a
}

// share gives two loads a processor each.
func share(loads [2]*Load) {
	for i, l := range loads {
		l.cpu = runtime.NumCPU() - 1 - i
		l.beside = loads[1-i]
	}
}

// Cores are the established connections, half of them for each of two processors.
func (r *Translator) Cores() (*Cores, error) {
	if err := twoProcessors(); err != nil {
		return nil, err
	}
	order := rand.New(rand.NewPCG(PolicySeed, 7)).Perm(len(r.flows))
	half := len(order) / 2
	c := &Cores{Path: r.Path}
	for i, streams := range [][2]uint8{{stream4, streamReply}, {secondStream4, secondStreamReply}} {
		var err error
		if c.Loads[i], err = r.bothWays(order[i*half:(i+1)*half], streams); err != nil {
			return nil, err
		}
	}
	share(c.Loads)
	return c, nil
}

// Scale measures how many times more packets per second two processors get through at once than one of them alone. The
// noise is how much faster one alone is than itself.
func (c *Cores) Scale(ctx context.Context, n int) (more, same result.Interval, err error) {
	r := &rounds{}
	var sides [2]*measured
	for i, l := range c.Loads {
		sides[i] = &measured{Side: Side{c.Path, l}}
		if err := sides[i].warmUp(ctx); err != nil {
			return more, same, err
		}
	}
	before, err := c.kernelForwarded()
	if err != nil {
		return more, same, err
	}
	var one, two, again []float64 // packets per ns of both processors, when each is alone, together, and alone again
	for range n {
		for turn, rates := range []*[]float64{&one, &two, &again} {
			rate := 0.0
			for i, s := range sides {
				begin := s.try
				if turn == 1 {
					begin = func(ctx context.Context, r *rounds) (float64, error) { return c.beside(ctx, c.Loads[1-i], s, r) }
				}
				per, err := begin(ctx, r)
				if err != nil {
					return more, same, err
				}
				rate += 1 / per
			}
			*rates = append(*rates, rate)
		}
	}
	after, err := c.kernelForwarded()
	if err != nil {
		return more, same, err
	}
	sent := uint64(3 * n * (sides[0].frames + sides[1].frames))
	if err := sides[0].rightForwarder(after-before, sent); err != nil {
		return more, same, err
	}
	if r.lost > sent/100 {
		return more, same, fmt.Errorf("%s: %d of %d packets were lost", c.Name, r.lost, sent)
	}
	more, same = scale(one, two, again)
	return more, same, nil
}

// beside is a trial of a side while the other processor sends, too.
func (c *Cores) beside(ctx context.Context, other *Load, s *measured, r *rounds) (per float64, err error) {
	sending, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	before := other.generator.Sequence()
	go func() { _, err := c.emit(sending, other, traffic.Order{}); ended <- err }()
	if err := begun(other, before, ended); err != nil {
		return 0, err
	}
	per, err = s.try(ctx, r)
	select {
	case early := <-ended:
		return 0, errors.Join(fmt.Errorf("%s: the other processor ended before the trial did", c.Name), early, err)
	default:
	}
	stop()
	select {
	case late := <-ended:
		return per, errors.Join(err, late)
	case <-time.After(floodTime):
		return 0, errors.Join(fmt.Errorf("%s: the other processor does not end", c.Name), err)
	}
}

// scale works out the figures of rounds: rates of two processors, each alone, together, and each alone again.
func scale(one, two, again []float64) (more, same result.Interval) {
	var ms, ss []float64
	for i := range two {
		ms = append(ms, 2*two[i]/math.Sqrt(one[i]*again[i]))
		ss = append(ss, again[i]/one[i])
	}
	return statistics.Interval(ms), statistics.Interval(ss)
}
