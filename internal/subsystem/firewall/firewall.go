// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"minne/internal/base/health"
	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/nft"
)

const subsystem = "firewall"

// Desired is the firewall that a configuration asks for.
type Desired struct {
	Policy   *policy.Policy    // nil for none: everything passes
	Warnings []config.Problem  // what is odd about it
	Files    map[string]string // the files it was made of: path → text
	Broken   error             // the policy can't be compiled, as a file of it is gone: nothing is forwarded
	Services *policy.Policy    // with Broken: what the router's services need is known nevertheless
}

// Render is what cfg asks of the firewall, with what its services need opened; its files are looked for in dir. A
// configuration whose policy can't be compiled was accepted once, and its files have
// changed since. Then the way is shut rather than open: see Apply.
func Render(cfg *config.Config, openings []policy.Opening, dir string, reach ...policy.Reach) (Desired, error) {
	result, err := policy.Compile(cfg, openings, dir, reach...)
	if err != nil {
		return Desired{Broken: err, Services: result.Policy.ServicesOnly(), Files: result.Files}, nil
	}
	return Desired{Policy: result.Policy, Warnings: result.Warnings, Files: result.Files}, nil
}

// Firewall is the table in the network namespace of the process.
type Firewall struct {
	log    *slog.Logger
	writes atomic.Uint64

	book *health.Book

	order    sync.Mutex // changes come one after the other, see listen.go
	listener Listener   // nil for none

	mu       sync.Mutex
	desired  Desired  // what was last applied
	standing standing // what is in the kernel, see stand.go
	live     *ledger
	fed      map[string]Fed                          // what services feed, by set, see feed.go
	hosts    func(put, out Fed)                      // hears of hosts; nil for nobody
	timer    *time.Timer                             // for the next live element whose time is up
	clock    *time.Timer                             // for the next look at schedules, see clock.go; nil when there are none
	after    func(time.Duration, func()) *time.Timer // starts clock; tests keep it from firing
	holding  []bool                                  // the rules that held at the last look
}

// New returns the firewall of the process's network namespace. The live elements
// of its sets are kept in the directory stateDir.
func New(stateDir string, log *slog.Logger) *Firewall {
	f := &Firewall{log: log, book: health.NewBook(log), after: time.AfterFunc, fed: map[string]Fed{}}
	var err error
	if f.live, err = readLedger(filepath.Join(stateDir, "sets.journal"), newKernelClocks()); err != nil {
		log.Error("some live set elements cannot be read; continuing with the others", "error", err)
	}
	return f
}

// ReportTo has what is wrong told to book. It is called once, before the first change.
func (f *Firewall) ReportTo(book *health.Book) { f.book = book }

// Writes counts how often the table was loaded, changed or removed.
func (f *Firewall) Writes() uint64 { return f.writes.Load() }

// named is a table's text with its name around and its fingerprint inside, by
// which a table that is loaded already is known again.
func named(body string) (script, fingerprint string) {
	sum := sha256.Sum256([]byte(body))
	fingerprint = hex.EncodeToString(sum[:12])
	return fmt.Sprintf("table inet %s {\n\tcomment %q\n%s}\n", tableName, commentHead+fingerprint, body), fingerprint
}

const commentHead = "minne policy "

// Apply puts the policy in place in one transaction. What is in place already is
// left alone. A policy that can't be made leaves the table that is loaded; where
// none is, as after a boot, nothing is forwarded until the cause is mended.
func (f *Firewall) Apply(ctx context.Context, d Desired) error {
	f.order.Lock()
	defer f.order.Unlock()
	return f.apply(ctx, d, false)
}

// Restore is Apply for when there is no way back. What keeps the rules from being loaded leaves the
// way shut; a helper that the kernel does not have is left out. The error says what is missing.
func (f *Firewall) Restore(ctx context.Context, d Desired) error {
	f.order.Lock()
	defer f.order.Unlock()
	return f.apply(ctx, d, true)
}

// apply is Apply, or Restore, for one who holds order.
func (f *Firewall) apply(ctx context.Context, d Desired, restore bool) error {
	f.expireNow()
	if d.Broken != nil {
		return f.keepFormer(d)
	}
	f.mu.Lock()
	f.desired = d
	f.wake()
	f.watchClock()
	f.mu.Unlock()
	if d.Policy == nil {
		return f.remove()
	}
	script, want := named(Text(d.Policy))
	words, digest, err := f.tableDiffers(d.Policy, want)
	if err == nil && len(words) == 0 {
		return f.stands(d.Policy, d.Policy, want, nil, digest)
	}
	missing, lacking := missingHelpers(ctx, d.Policy)
	if lacking != nil && !restore {
		return lacking
	}
	p := d.Policy
	if lacking != nil {
		lacking = fmt.Errorf("the firewall is in place without what the kernel lacks: %w", lacking)
		p = withoutHelpers(p, missing)
		script, want = named(Text(p))
		if words, digest, err := f.tableDiffers(p, want); err == nil && len(words) == 0 {
			return errors.Join(lacking, f.stands(d.Policy, p, want, nil, digest))
		}
	}
	if restore {
		// The guard first: it needs nothing that can be missing.
		if now, err := loaded(); err == nil && now == "" {
			lacking = errors.Join(lacking, f.writeGuard(guardShut, d.Policy))
		}
	}
	if err := f.place(ctx, d.Policy, p, script, want); err != nil {
		if restore {
			err = errors.Join(err, f.shut(d))
		}
		return err
	}
	return errors.Join(lacking, f.endForbidden(d.Policy, nil))
}

// keepFormer leaves the table that is loaded, and shuts the way where there is none.
func (f *Firewall) keepFormer(d Desired) (err error) {
	if f.formerStands(d) != nil {
		err = f.shut(d)
	}
	return errors.Join(fmt.Errorf("cannot compile the policy; the previous one stays in force (after a boot: nothing is forwarded): %w", d.Broken), err)
}

// remove takes the firewall away: everything passes.
func (f *Firewall) remove() error {
	f.mu.Lock()
	f.standing = standing{}
	f.mu.Unlock()
	now, err := loaded()
	if err != nil {
		return err
	}
	if now != "" {
		f.writes.Add(1)
	}
	return nft.Remove(guardTable, tableName)
}

// endForbidden ends the connections that a policy forbids: those with an address in one of the
// changed prefixes, or all for nil. With live elements in its sets, the policy is evaluated as it is.
// The caller holds order.
func (f *Firewall) endForbidden(p *policy.Policy, changed []netip.Prefix) error {
	if none, err := noConnections(); err == nil && none {
		return nil
	}
	ended, err := sever(f.WithLive(p), changed)
	if ended > 0 {
		f.log.Info("deleted connections that the policy denies", "connections", ended)
		if f.listener != nil {
			f.listener.ConnectionsEnded()
		}
	}
	return err
}

// WithLive is the policy with the live elements in its sets.
func (f *Firewall) WithLive(p *policy.Policy) *policy.Policy {
	f.mu.Lock()
	defer f.mu.Unlock()
	with := *p
	with.Sets = slices.Clone(p.Sets)
	for i := range with.Sets {
		s := &with.Sets[i]
		if s.Fed {
			s.Prefixes = f.fedPrefixes(s.Name)
		} else if live := inForce(s, f.live.sorted(s.Name)); len(live) > 0 {
			s.Prefixes = slices.Concat(s.Prefixes, live)
			slices.SortFunc(s.Prefixes, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
		}
	}
	return &with
}

// Plan says what Apply would change. It changes nothing.
func (f *Firewall) Plan(ctx context.Context, d Desired) ([]plan.Change, error) {
	if d.Broken != nil {
		return nil, d.Broken
	}
	now, err := loaded()
	if err != nil {
		return nil, err
	}
	want := ""
	var others []string // what others have changed
	if d.Policy != nil {
		_, want = named(Text(d.Policy))
		if _, err := missingHelpers(ctx, d.Policy); err != nil {
			return nil, err
		}
		if now == want {
			if others, err = f.changed(d.Policy, want); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case len(others) > 0:
		return []plan.Change{{Subsystem: subsystem, Action: plan.Modify, Object: "firewall, which something else has changed", Details: others}}, nil
	case now == want:
		return nil, nil
	case want == "":
		return []plan.Change{{Subsystem: subsystem, Action: plan.Remove, Object: "firewall", Effect: "everything that is routed passes, and all may reach the router"}}, nil
	}
	rules := len(d.Policy.Rules)
	change := plan.Change{Subsystem: subsystem, Action: plan.Modify, Object: "firewall"}
	if now == "" {
		change.Action, change.Object = plan.Add, fmt.Sprintf("firewall of %d zones with %d rules", len(d.Policy.Zones)-1, rules)
		change.Effect = "what no rule permits is dropped, connections that exist now too"
		return []plan.Change{change}, nil
	}
	counters, err := readCounters()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	running := f.desired.Policy
	f.mu.Unlock()
	change.Details = append(beyondRules(running, d.Policy), differences(counters, d.Policy)...)
	if len(change.Details) == 0 {
		change.Object = "firewall: zones, sets or translations"
	}
	return []plan.Change{change}, nil
}

// changed is tableDiffers, and what became of the guard.
func (f *Firewall) changed(p *policy.Policy, print string) ([]string, error) {
	f.order.Lock()
	defer f.order.Unlock()
	f.expireNow()
	words, digest, err := f.tableDiffers(p, print)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	guard := f.standing.guard
	f.mu.Unlock()
	if len(words) == 0 && guard != nil { // nil: this process is not the one that watches over it
		if err := f.guardDiffers(guard, digest); err != nil {
			words = append(words, err.Error())
		}
	}
	return words, nil
}

// differences are the rules that come and go, by their words.
func differences(now []counted, p *policy.Policy) (list []string) {
	had, has := map[string]int{}, map[string]int{}
	for _, c := range now {
		if c.kind == ruleCounter {
			had[c.words]++
		}
	}
	var order []string
	for i := range p.Rules {
		_, words := cutComment(comment(&p.Rules[i]))
		has[words]++
		order = append(order, words)
	}
	for _, words := range order {
		if had[words] < has[words] {
			list = append(list, "+ "+words)
			had[words]++
		}
	}
	for _, c := range now {
		if c.kind == ruleCounter && !isService(c, p) && has[c.words] < had[c.words] {
			list = append(list, "- "+c.words)
			had[c.words]--
		}
	}
	return list
}

// isService reports whether a counter is that of a service of the router.
func isService(c counted, p *policy.Policy) bool {
	for i := range p.Services {
		if _, words := cutComment(comment(&p.Services[i])); words == c.words {
			return true
		}
	}
	return false
}
