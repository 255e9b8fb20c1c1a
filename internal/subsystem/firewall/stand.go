// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"minne/internal/model/policy"
	"minne/internal/subsystem/nft"
)

// What stands in the kernel. With a firewall that is two tables:
//
//	inet minne_policy    the rules, compiled by nft(8); the first of forward and input marks what they are about to evaluate
//	inet minne_guard     behind it: lets pass what is marked, and drops all else but what keeps the router alive (alone.go)
//
// Nobody but this process can change either (see nft.Load). The guard is one transaction of netlink without any
// condition (see nft.Guard). So whatever happens to the rules, nothing passes without them: when
// they can't be loaded, when somebody deletes them, between "nft flush ruleset" and the moment in
// which they stand again. Shut, the guard does not look at marks: for rules that are not those
// of the configuration.
//
// In its comment, the guard keeps a print of the rules as they were loaded, for the next daemon.

const (
	guardTable = "minne_guard"
	guardHead  = "minne guard "
	guardShut  = "shut"
	guardMark  = 1 << 31 // of the packet's mark
)

// markLine is the rule that marks what the table is there to evaluate.
const markLine = "meta mark set meta mark | 0x80000000"

// standing is what this process knows of the tables.
type standing struct {
	policy *policy.Policy // that of the configuration which the rules are in force of; nil for none
	loaded *policy.Policy // the one that was loaded: it may lack helpers
	print  string         // of its text
	image  nft.Image      // as it was loaded; nil when an earlier daemon did
	guard  nft.Image      // of the guard; nil before this process has written it
}

// InForce says whether the rules of a policy stand in the kernel, as far as is known.
func (f *Firewall) InForce(p *policy.Policy) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return p != nil && f.standing.policy == p
}

// writeGuard puts the guard in place; p is the policy that says what reaches the router without its rules.
func (f *Firewall) writeGuard(words string, p *policy.Policy) error {
	g := nft.Guard{Table: guardTable, Comment: guardHead + words, Mark: guardMark, Shut: words == guardShut}
	g.Self, g.Chains = alone(p)
	if err := g.Write(); err != nil {
		return err
	}
	image, err := nft.ReadImage(guardTable)
	f.mu.Lock()
	f.standing.guard = image
	f.mu.Unlock()
	return err
}

// KeepGuard has the guard keep its owner when this process ends.
func (f *Firewall) KeepGuard() {
	const key = "firewall-keeper"
	nft.KeepOwner(func(err error) {
		if err != nil {
			f.book.Fault(key, err.Error())
		} else {
			f.book.Clear(key)
		}
	})
}

// LetGo leaves the tables to whoever wants to change them, once this process has ended.
func (f *Firewall) LetGo() error { return nft.LetGo(guardTable) }

// shut has nothing forwarded any more, and tells the listener. The caller holds order.
func (f *Firewall) shut(d Desired) error {
	f.mu.Lock()
	f.standing.policy = nil
	f.mu.Unlock()
	err := f.writeGuard(guardShut, d.sure())
	if f.listener != nil {
		f.listener.ForceChanged()
	}
	if err != nil {
		return fmt.Errorf("nothing keeps packets back: %w", err)
	}
	f.log.Warn("nothing is forwarded until the firewall is in place")
	return nil
}

// sure is what is known of the policy for certain.
func (d Desired) sure() *policy.Policy {
	if d.Broken != nil {
		return d.Services
	}
	return d.Policy
}

// Shut has nothing forwarded until the policy is put in place again.
func (f *Firewall) Shut() error {
	f.order.Lock()
	defer f.order.Unlock()
	f.mu.Lock()
	d := f.desired
	f.mu.Unlock()
	return f.shut(d)
}

// stands notes that the rules of a policy are in force, and puts the guard behind them. image is nil
// when they were there already. The caller holds order.
func (f *Firewall) stands(p, loaded *policy.Policy, print string, image nft.Image, digest string) error {
	f.mu.Lock()
	known := f.standing.guard
	f.mu.Unlock()
	if err := f.guardDiffers(known, digest); err != nil {
		if err := f.writeGuard(digest, p); err != nil {
			return err
		}
	}
	f.mu.Lock()
	again := f.standing.policy == nil
	if image == nil {
		image = f.standing.image
	}
	f.standing.policy, f.standing.loaded, f.standing.print, f.standing.image = p, loaded, print, image
	f.mu.Unlock()
	if again && f.listener != nil {
		f.listener.ForceChanged()
	}
	return nil
}

// guardDiffers says why the guard is not the one that this process has written for the rules of a
// digest.
func (f *Firewall) guardDiffers(known nft.Image, digest string) error {
	now, err := nft.ReadImage(guardTable)
	switch {
	case err != nil:
		return err
	case now == nil:
		return errors.New("the table behind the rules (" + guardTable + ") was deleted")
	case known == nil || now.Digest() != known.Digest():
		return errors.New("the table behind the rules (" + guardTable + ") was changed")
	}
	if comment, _, err := nft.Comment(guardTable); err != nil || comment != guardHead+digest {
		return errors.Join(err, errors.New("nothing is forwarded"))
	}
	return nil
}

// digestKept is the print of the rules that the guard keeps.
func digestKept() (string, error) {
	comment, _, err := nft.Comment(guardTable)
	digest, _ := strings.CutPrefix(comment, guardHead)
	return digest, err
}

// tableDiffers says in what the loaded table differs from the one that was loaded for a policy,
// whose text has a print: nothing for not at all. digest is that of the image if it does not. The
// caller holds order.
func (f *Firewall) tableDiffers(p *policy.Policy, print string) (words []string, digest string, err error) {
	now, err := loaded()
	if err != nil {
		return nil, "", err
	}
	switch now {
	case "":
		return []string{"the table is gone"}, "", nil
	case print:
	default:
		return []string{"another table is loaded"}, "", nil
	}
	image, err := nft.ReadImage(tableName)
	if err != nil {
		return nil, "", err
	}
	digest = image.Digest()
	kept, err := digestKept()
	if err != nil {
		return nil, "", err
	}
	f.mu.Lock()
	was := f.standing.image
	f.mu.Unlock()
	switch {
	case was != nil && was.Digest() != digest:
		words = was.Differences(image)
	case was == nil && kept != digest:
		words = []string{"its rules changed"}
	case !image.Owned(): // it is an earlier version's
		words = []string{"anybody may change it"}
	}
	sets, err := f.setsDiffer(p)
	return append(words, sets...), digest, err
}

// soon is how long before the end of an element's time it may be missing in the kernel, which
// keeps its own time.
const soon = 2 * time.Second

// setsDiffer says which sets of addresses hold something else than the configuration and minne
// set add have put in.
func (f *Firewall) setsDiffer(p *policy.Policy) (words []string, err error) {
	for i := range p.Sets {
		s := &p.Sets[i]
		if s.Kind == policy.PortSet {
			continue // part of the image
		}
		f.mu.Lock()
		var all, lasting [2][]nft.Span // by family
		enter := func(list *[2][]nft.Span, p netip.Prefix) {
			family := map[bool]int{true: 0, false: 1}[p.Addr().Is4()]
			list[family] = append(list[family], nft.SpanOf(p))
		}
		for _, p := range s.Prefixes {
			enter(&all, p)
			enter(&lasting, p)
		}
		now := f.live.now()
		for _, p := range inForce(s, f.live.sorted(s.Name)) {
			enter(&all, p)
			if u, _ := f.live.set(s.Name).Get(p); u.at == 0 || u.at-now > soon {
				enter(&lasting, p)
			}
		}
		if s.Fed {
			for _, p := range f.fedPrefixes(s.Name) {
				enter(&all, p)
				enter(&lasting, p)
			}
		}
		f.mu.Unlock()
		if s.Hosts {
			more, err := f.hostsDiffer(s)
			if err != nil {
				return nil, err
			}
			words = append(words, more...)
		}
		for family, four := range []bool{true, false} {
			name := kernelSet(s.Name, four)
			is, err := nft.Spans(tableName, name, s.Kind == policy.PrefixSet)
			if err != nil {
				return nil, err
			}
			if !nft.Cover(nft.Merge(all[family]), is) || !nft.Cover(is, nft.Merge(lasting[family])) {
				words = append(words, "elements of set "+name+" changed")
			}
		}
	}
	return words, nil
}

// place loads the table of a policy, and the guard behind it. The caller holds order.
func (f *Firewall) place(ctx context.Context, of, p *policy.Policy, script, print string) error {
	f.mu.Lock()
	script += f.live.script(p) + f.fedScript(p)
	f.mu.Unlock()
	image, err := nft.Load(ctx, tableName, script)
	if err != nil {
		return err
	}
	f.writes.Add(1)
	f.log.Info("firewall loaded", "bytes", len(script))
	return f.stands(of, p, print, image, image.Digest())
}

// Stands says whether nothing passes that a configuration denies: its rules are in force, or nothing
// passes at all. It makes it so if that is not yet the case; the error is why it can't.
func (f *Firewall) Stands(d Desired) error {
	f.order.Lock()
	defer f.order.Unlock()
	if d.Policy == nil && d.Broken == nil {
		return nil
	}
	f.mu.Lock()
	s := f.standing
	f.mu.Unlock()
	switch {
	case d.Broken != nil:
		if f.formerStands(d) == nil {
			return nil
		}
	case s.policy == d.Policy:
		words, digest, err := f.tableDiffers(s.loaded, s.print)
		if err == nil && len(words) == 0 && f.guardDiffers(s.guard, digest) == nil {
			return nil
		}
	}
	return f.shut(d)
}

// formerStands says why the rules of an earlier configuration are not in place as they were loaded. If
// they are, it takes over the guard behind them. The caller holds order.
func (f *Firewall) formerStands(d Desired) error {
	image, err := nft.ReadImage(tableName)
	if err != nil {
		return err
	}
	kept, err := digestKept()
	if err != nil {
		return err
	}
	if image == nil || image.Digest() != kept {
		return errors.New("no previous rules")
	}
	f.mu.Lock()
	known := f.standing.guard
	f.mu.Unlock()
	if f.guardDiffers(known, kept) != nil {
		return f.writeGuard(kept, d.sure())
	}
	return nil
}

// Recheck compares what stands in the kernel with what was put there, and puts it in place again.
// It returns in what it differed, nil for not at all. Where it can't be put in place, nothing is
// forwarded.
func (f *Firewall) Recheck(ctx context.Context) (words []string, err error) {
	f.order.Lock()
	defer f.order.Unlock()
	f.mu.Lock()
	d, s := f.desired, f.standing
	f.mu.Unlock()
	if d.Policy == nil || s.loaded == nil {
		return nil, nil
	}
	f.expireNow()
	words, digest, err := f.tableDiffers(s.loaded, s.print)
	if err == nil && s.policy != nil {
		if len(words) == 0 {
			differs := f.guardDiffers(s.guard, digest)
			if differs == nil {
				return nil, nil
			}
			words = []string{differs.Error()}
		}
	}
	if err := f.apply(ctx, d, true); err != nil {
		return words, err
	}
	// What passed meanwhile may have made connections, or ended translations.
	if f.listener != nil {
		f.listener.ForceChanged()
	}
	return words, nil
}

// withoutHelpers is a policy without some of its helpers.
func withoutHelpers(p *policy.Policy, missing []policy.Helper) *policy.Policy {
	less := *p
	less.Helpers = slices.DeleteFunc(slices.Clone(p.Helpers), func(h policy.Helper) bool { return slices.Contains(missing, h) })
	return &less
}
