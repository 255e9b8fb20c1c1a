// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"minne/internal/base/thread"
	"minne/internal/lab/algo/kernelfib"
	"minne/internal/lab/algo/lpm"
	"minne/internal/lab/algo/lpmbench"
	"minne/internal/model/rib"
)

// The kernel's own routing table, asked by bpf_fib_lookup: what eBPF programs of others use.

// ofTheKernel are addresses that the kernel has answers of its own for, whatever the routes say.
var ofTheKernel = []netip.Prefix{netip.MustParsePrefix("ff00::/8"), netip.MustParsePrefix("fe80::/10")}

// bytesPerKernelRoute is what the kernel takes for a route, its next hop included, with room to spare.
const bytesPerKernelRoute = 1200

// kernelRoutes is the workload of the kernel's own table, which is filled as it is loaded.
func (b *builder) kernelRoutes(f lpm.Family, routes []lpm.Route, holds string, sets []keySet) {
	if why := b.noKernelRoutes(routes); why != nil {
		b.missing(KernelFIB, holds, why)
		return
	}
	w := &workload{algorithm: KernelFIB, holds: holds, sets: plain(sets)}
	w.inKernel = func(k *kernelSide) (contender, error) {
		begin := time.Now()
		in, err := kernelfib.New()
		if err != nil {
			return nil, err
		}
		c, err := k.routes(f, sets, func(l *lpmbench.Bench) (*lpmbench.Contender, error) {
			all := make([]rib.Route, len(routes))
			for i, r := range routes {
				all[i] = in.Route(r.Prefix, r.NextHop)
			}
			if err := in.Install(context.Background(), b.install, all); err != nil {
				return nil, err
			}
			if err := in.Do(func() error { _, err := thread.Stay(b.cpu); return err }); err != nil {
				return nil, err
			}
			return l.Kernel(f, in)
		})
		if err != nil {
			in.Close()
			return nil, err
		}
		b.result.Tables = append(b.result.Tables, Table{Algorithm: KernelFIB, Holds: holds, BuildMs: time.Since(begin).Seconds() * 1e3, Detail: "the kernel does not report its memory"})
		return &kernelContender{c, in}, nil
	}
	b.workloads = append(b.workloads, w)
}

// noKernelRoutes says why the kernel can't be asked about these routes.
func (b *builder) noKernelRoutes(routes []lpm.Route) error {
	if b.install == nil {
		return errors.New("nothing here installs routes")
	}
	if memory := b.result.Machine.MemoryBytes; memory > 0 && uint64(len(routes))*bytesPerKernelRoute > memory/2 {
		return errors.New("so many routes in the kernel take more than half of this machine's memory")
	}
	for _, r := range routes {
		for _, p := range ofTheKernel {
			if p.Overlaps(r.Prefix) {
				return errors.New("the kernel has answers of its own for some addresses of " + r.Prefix.String())
			}
		}
		if r.NextHop > kernelfib.MostHops {
			return errors.New("too many next hops")
		}
	}
	return nil
}

// kernelContender is the kernel's table with the namespace that it is in.
type kernelContender struct {
	contender
	in *kernelfib.Namespace
}

func (c *kernelContender) close() {
	c.contender.close()
	c.in.Close()
}
