// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"bytes"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/nft"
)

// Sets that a service feeds: the hosts that are logged in, the addresses of names. What is in them is kept in memory alone,
// because the service knows it: it says so before the first commit, and with every change. A table that is loaded has it
// from its first packet on.

// Fed is what is in a set: addresses, each with the MAC address of its host, or none in sets that are not of hosts.
type Fed map[netip.Addr]config.MAC

// hostKey is the key of a host's element in nftables: each part fills whole words of 4 bytes.
func hostKey(a netip.Addr, m config.MAC) []byte {
	return slices.Concat(m[:], []byte{0, 0}, a.AsSlice())
}

// Feed makes a set hold these addresses, from the next table that is loaded on. It does not touch the kernel: it is for the time
// before the first commit, and for sets that no policy has yet.
func (f *Firewall) Feed(set string, all Fed) {
	f.order.Lock()
	defer f.order.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fed[set] = maps.Clone(all)
}

// Refeed makes a set hold these addresses, in the kernel and in the fast path as well; connections that end thereby end in both.
// A set that no policy has takes them in nevertheless.
func (f *Firewall) Refeed(set string, all Fed) error {
	f.order.Lock()
	defer f.order.Unlock()
	f.mu.Lock()
	was := f.fed[set]
	s := f.fedSet(set)
	f.mu.Unlock()
	put, out := Fed{}, Fed{}
	for a, m := range all {
		if old, there := was[a]; !there || old != m {
			put[a] = m
		}
	}
	for a, m := range was {
		if now, stays := all[a]; !stays || now != m {
			out[a] = m
		}
	}
	if len(put)+len(out) == 0 {
		return nil
	}
	return f.change(s, set, put, out)
}

// ChangeFed puts addresses into a set and takes others out, as Refeed does.
func (f *Firewall) ChangeFed(set string, put Fed, del []netip.Addr) error {
	f.order.Lock()
	defer f.order.Unlock()
	f.mu.Lock()
	was := f.fed[set]
	s := f.fedSet(set)
	in, out := Fed{}, Fed{}
	for a, m := range put {
		if old, there := was[a]; there && old != m {
			out[a] = old
		} else if there {
			continue
		}
		in[a] = m
	}
	for _, a := range del {
		if m, there := was[a]; there {
			out[a] = m
		}
	}
	f.mu.Unlock()
	if len(in)+len(out) == 0 {
		return nil
	}
	return f.change(s, set, in, out)
}

// change changes a set in the kernel, in memory and in the fast path, in this order. An address that is in both lists has another
// MAC address now. The caller holds order.
func (f *Firewall) change(s *policy.Set, set string, put, out Fed) error {
	if s != nil {
		if err := nft.Change(tableName, fedBatch(s, put, out)); err != nil {
			return err
		}
		f.writes.Add(1)
	}
	f.mu.Lock()
	if f.fed[set] == nil {
		f.fed[set] = Fed{}
	}
	for a := range out {
		delete(f.fed[set], a)
	}
	maps.Copy(f.fed[set], put)
	f.mu.Unlock()
	if s == nil {
		return nil
	}
	t := setChange{set: s}
	for a := range put {
		if _, stays := out[a]; !stays {
			t.added = append(t.added, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	for a := range out {
		if _, stays := put[a]; !stays {
			t.deleted = append(t.deleted, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	if f.hosts != nil && s.Hosts {
		f.hosts(put, out)
	}
	return f.notify(t)
}

// fedSet is a set of the policy in force that a service feeds, nil for none. The caller holds mu.
func (f *Firewall) fedSet(name string) *policy.Set {
	if f.standing.loaded == nil {
		return nil
	}
	for i := range f.standing.loaded.Sets {
		if s := &f.standing.loaded.Sets[i]; s.Name == name && s.Fed {
			return s
		}
	}
	return nil
}

// fedBatch is the change for nftables.
func fedBatch(s *policy.Set, put, out Fed) (batch []nft.Elements) {
	for _, part := range []struct {
		list   Fed
		delete bool
	}{{out, true}, {put, false}} {
		for _, four := range []bool{true, false} {
			plain := nft.Elements{Set: kernelSet(s.Name, four), Delete: part.delete}
			hosts := nft.Elements{Set: kernelSet(s.Name+hostsSuffix, four), Delete: part.delete}
			for _, a := range slices.SortedFunc(maps.Keys(part.list), netip.Addr.Compare) {
				if a.Is4() == four {
					plain.Prefixes = append(plain.Prefixes, netip.PrefixFrom(a, a.BitLen()))
					hosts.Keys = append(hosts.Keys, hostKey(a, part.list[a]))
				}
			}
			batch = append(batch, plain)
			if s.Hosts {
				batch = append(batch, hosts)
			}
		}
	}
	return batch
}

// fedScript puts what services feed into a table that is being loaded. The caller holds mu.
func (f *Firewall) fedScript(p *policy.Policy) string {
	var b strings.Builder
	for i := range p.Sets {
		s := &p.Sets[i]
		if !s.Fed {
			continue
		}
		for _, four := range []bool{true, false} {
			var plain, hosts []string
			for _, a := range slices.SortedFunc(maps.Keys(f.fed[s.Name]), netip.Addr.Compare) {
				if a.Is4() == four {
					plain = append(plain, a.String())
					hosts = append(hosts, f.fed[s.Name][a].String()+" . "+a.String())
				}
			}
			if len(plain) > 0 {
				b.WriteString(elementCommand(s.Name, four, plain))
				if s.Hosts {
					b.WriteString(elementCommand(s.Name+hostsSuffix, four, hosts))
				}
			}
		}
	}
	return b.String()
}

// fedPrefixes are the elements of a set that a service feeds, in order. The caller holds mu.
func (f *Firewall) fedPrefixes(set string) (list []netip.Prefix) {
	for _, a := range slices.SortedFunc(maps.Keys(f.fed[set]), netip.Addr.Compare) {
		list = append(list, netip.PrefixFrom(a, a.BitLen()))
	}
	return list
}

// hostsDiffer says whether the kernel's sets with MAC addresses hold something else than the service has put in.
func (f *Firewall) hostsDiffer(s *policy.Set) (words []string, err error) {
	for _, four := range []bool{true, false} {
		f.mu.Lock()
		var want [][]byte
		for a, m := range f.fed[s.Name] {
			if a.Is4() == four {
				want = append(want, hostKey(a, m))
			}
		}
		f.mu.Unlock()
		name := kernelSet(s.Name+hostsSuffix, four)
		is, err := nft.Keys(tableName, name)
		if err != nil {
			return nil, err
		}
		slices.SortFunc(want, bytes.Compare)
		slices.SortFunc(is, bytes.Compare)
		if !slices.EqualFunc(want, is, bytes.Equal) {
			words = append(words, "elements of set "+name+" changed")
		}
	}
	return words, nil
}
