// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"minne/internal/base/plan"
	"minne/internal/base/tc"
	"minne/internal/model/config"
	"minne/internal/subsystem/kernel/sorter"
)

// Plans of subscribers. An interface that leads to subscribers sends through a tree: htb, with a class for each subscriber
// that has the speed of the plan, and a queue at the class. What the interface receives is redirected to a link of kind
// ifb, as that of a shaped line, which has a tree of its own. Both are at the subscriber's side of the router, so they see
// the subscriber's own addresses, whatever NAT does, and the plan holds whichever way packets take on the other side.
//
// A classifier (package sorter) finds the class by the address, the same one for all trees. An interface that is one
// subscriber's needs none: its class is the tree's default. What is nobody's passes as it comes.
//
// A subscriber keeps the number of the class. It stands in the classifier's table, where a new daemon finds it: so a
// change of one subscriber touches nobody else's packets.

// DesiredTree is how what passes an interface is sorted: by addresses, or all of it is one subscriber's.
type DesiredTree struct{ Whole string }

// DesiredSubscriber is who has a plan.
type DesiredSubscriber struct {
	Name, Plan string
	Down, Up   uint64 // bytes/s
	Burst      time.Duration
	Queue      config.PlanQueue
	Keys       []sorter.Key // none: all that passes Interface
	Interface  string       // that the subscriber is behind, "" for every one that sorts
}

// wholeClass is the number of the class of an interface that is one subscriber's.
const wholeClass = 1

// renderSubscribers is who is behind which interface, by name.
func renderSubscribers(cfg *config.Config) (list []DesiredSubscriber) {
	const bitsOfByte = 8
	for _, name := range slices.Sorted(maps.Keys(cfg.Subscribers)) {
		s := cfg.Subscribers[name]
		p := cfg.Plans[s.Plan]
		d := DesiredSubscriber{Name: name, Plan: s.Plan, Down: uint64(p.Down) / bitsOfByte, Up: uint64(p.Up) / bitsOfByte, Burst: p.Burst.Std(), Queue: p.Queue, Interface: s.Interface}
		for _, a := range s.Addresses {
			d.Keys = append(d.Keys, sorter.Network(a.Prefix))
		}
		for _, m := range s.MAC {
			d.Keys = append(d.Keys, sorter.MAC(m))
		}
		list = append(list, d)
	}
	return list
}

// plantTrees says which interfaces have trees.
func plantTrees(cfg *config.Config, interfaces []DesiredInterface) {
	wholes := map[string]string{}
	for name, s := range cfg.Subscribers {
		if s.Whole() {
			wholes[s.Interface] = name
		}
	}
	for n := range interfaces {
		i := &interfaces[n]
		if whole := wholes[i.Name]; whole != "" || cfg.SortsSubscribers(i.Name) {
			i.Tree = &DesiredTree{Whole: whole}
		}
	}
}

// behind says whether a subscriber's packets pass an interface with a tree.
func (s *DesiredSubscriber) behind(i *DesiredInterface) bool {
	if len(s.Keys) == 0 {
		return i.Tree.Whole == s.Name
	}
	return i.Tree.Whole == "" && (s.Interface == "" || s.Interface == i.Name)
}

// class is the subscriber's in one direction.
func (s *DesiredSubscriber) class(minor uint16, down bool) tc.Class {
	c := tc.Class{Minor: minor, Rate: s.Up, Burst: s.Burst}
	if down {
		c.Rate = s.Down
	}
	return c
}

// words are the plan in a preview.
func (s *DesiredSubscriber) words() string {
	const bitsOfByte = 8
	return fmt.Sprintf("%s (%s down, %s up)", s.Plan, config.Rate(s.Down*bitsOfByte), config.Rate(s.Up*bitsOfByte))
}

// leafWords are the queues by the words of the file.
var leafWords = map[string]config.PlanQueue{"fq_codel": "fq-codel", "cake": "cake", "": "fifo"}

// leaf is the queue at a class, of a kind that the kernel has.
func leaf(kind string, rate uint64, down bool) tc.Leaf {
	const (
		second      = 1_000_000 // µs
		shortest    = 5000      // µs that a queue may be long
		frames      = 1514 * 3 / 2
		connections = 128
		waiting     = 4096
	)
	switch kind {
	case "fq_codel":
		return tc.Leaf{Kind: kind, Codel: tc.Codel{Target: uint32(max(shortest, frames*second/max(rate, 1))), Limit: waiting, Flows: connections}}
	case "cake":
		hosts := tc.DualSrcHost
		if down {
			hosts = tc.DualDestHost
		}
		return tc.Leaf{Kind: kind, Cake: tc.Cake{Diffserv: tc.BestEffort, Flows: hosts, RTT: second / 10}}
	}
	return tc.Leaf{}
}

// sorting is what a Kernel keeps of trees: the classifier, and which kinds of disciplines there are.
type sorting struct {
	program *sorter.Sorter
	lacks   map[string]bool
	took    time.Duration // for the last change of trees and of the classifier
}

// lacking says whether the kernel lacks a kind of discipline.
func (r *round) lacking(kind string) (bool, error) {
	if lacks, asked := r.sorting.lacks[kind]; asked {
		return lacks, nil
	}
	lacks, err := r.system.lacks(kind)
	if err == nil {
		r.sorting.lacks[kind] = lacks
	}
	return lacks, err
}

// leafKind is the kind of queue for what a plan asks.
func (r *round) leafKind(plan string, queue config.PlanQueue) (string, error) {
	kinds := []string{"fq_codel", "cake"}
	for _, kind := range kinds {
		if queue != "auto" && queue != leafWords[kind] {
			continue
		}
		switch lacks, err := r.lacking(kind); {
		case err != nil:
			return "", err
		case !lacks:
			return kind, nil
		case queue != "auto":
			return "", fmt.Errorf("plans.%s.queue: this kernel has no queueing discipline %s (module sch_%s): use Debian's kernel, or queue: auto", plan, kind, kind)
		}
	}
	return "", nil
}

// sorted is one direction of an interface: the tree of the link through which its packets leave.
type sorted struct {
	down   bool
	link   int // 0: it is to be made
	change tc.TreeChange
	stale  []uint16
	attach bool     // the classifier is to be attached
	lost   []string // what must have happened, should this be a repair
}

// empty says whether all is as wanted, but for classes that are too many.
func (s *sorted) empty() bool {
	return !s.change.Plant && len(s.change.Classes)+len(s.change.Leaves) == 0 && !s.attach
}

// number gives each subscriber with addresses the number of a class: the one that it has, or one that nobody has.
func (r *round) number(has map[sorter.Key]sorter.Subscriber) map[string]uint16 {
	numbers, taken := map[string]uint16{}, map[uint16]bool{0: true, wholeClass: true}
	for _, s := range has {
		if !taken[s.Class] {
			numbers[s.Name], taken[s.Class] = s.Class, true
		}
	}
	next := uint16(wholeClass)
	for _, s := range r.desired.Subscribers {
		if len(s.Keys) == 0 || numbers[s.Name] != 0 {
			continue
		}
		for taken[next] {
			next++
		}
		numbers[s.Name], taken[next] = next, true
	}
	return numbers
}

// plans compares the trees of interfaces that lead to subscribers, and says which links have one.
func (r *round) plans(ctx context.Context, all []tc.Discipline, wanted map[int]bool) error {
	trees := slices.DeleteFunc(slices.Clone(r.bound), func(b *bound) bool { return b.Tree == nil })
	if len(trees) == 0 {
		return r.sorting.close()
	}
	if lacks, err := r.lacking("htb"); err != nil || lacks {
		if lacks {
			err = fmt.Errorf("plans: this kernel has no queueing discipline htb, which gives subscribers their speeds (CONFIG_NET_SCH_HTB, module sch_htb): use Debian's kernel, or remove the sections plans and subscribers")
		}
		return err
	}
	kinds := map[string]string{}
	for _, s := range r.desired.Subscribers {
		if _, known := kinds[s.Plan]; !known {
			kind, err := r.leafKind(s.Plan, s.Queue)
			if err != nil {
				return err
			}
			kinds[s.Plan] = kind
		}
	}
	if err := r.sorting.open(); err != nil {
		return err
	}
	roots, leaves := map[int]*tc.Discipline{}, map[int]map[uint16]*tc.Discipline{}
	for n := range all {
		switch d := &all[n]; {
		case d.Parent == tc.Root:
			roots[d.Link] = d
		case d.Minor() != 0:
			if leaves[d.Link] == nil {
				leaves[d.Link] = map[uint16]*tc.Discipline{}
			}
			leaves[d.Link][d.Minor()] = d
		}
	}
	for _, b := range trees { // first of all, who has which number
		if b.link == nil || b.Tree.Whole != "" {
			continue
		}
		if err := r.adopt(b.link.Index); err != nil {
			return err
		}
	}
	numbers := r.number(r.sorting.program.Entries())
	for _, b := range trees {
		if err := r.tree(ctx, b, numbers, kinds, roots, leaves, wanted); err != nil {
			return err
		}
	}
	r.entries(numbers)
	return nil
}

// adopt takes over what an earlier daemon's classifier at a link knows.
func (r *round) adopt(link int) error {
	at, err := r.system.sorter(link)
	if _, own := r.sorting.program.Program(true); err != nil || at == 0 || at == own || len(r.sorting.program.Entries()) > 0 {
		return err
	}
	return r.sorting.program.Adopt(at)
}

// tree compares both directions of an interface.
func (r *round) tree(ctx context.Context, b *bound, numbers map[string]uint16, kinds map[string]string, roots map[int]*tc.Discipline, leaves map[int]map[uint16]*tc.Discipline,
	wanted map[int]bool) error {
	to, err := r.ifbOf(b.Name)
	if err != nil {
		return err
	}
	ifb := 0
	if to != nil {
		ifb = to.Index
		wanted[ifb] = true
	}
	if b.link != nil {
		wanted[b.link.Index] = true
	}
	if b.missing {
		return nil
	}
	var redirected tc.Redirected
	index := 0
	if b.link != nil {
		index = b.link.Index
		if redirected, err = r.system.redirects(index); err != nil {
			return err
		}
	}
	whose := map[uint16]*DesiredSubscriber{} // by the number of the class
	for n := range r.desired.Subscribers {
		if s := &r.desired.Subscribers[n]; s.behind(&b.DesiredInterface) {
			minor := numbers[s.Name]
			if b.Tree.Whole != "" {
				minor = wholeClass
			}
			whose[minor] = s
		}
	}
	var lost, details []string
	sides := []*sorted{{down: true, link: index}, {link: ifb}}
	for _, side := range sides {
		if err := r.side(ctx, b, side, whose, kinds, roots[side.link], leaves[side.link]); err != nil {
			return err
		}
		lost = append(lost, side.lost...)
	}
	switch {
	case to == nil:
		lost = append(lost, fmt.Sprintf("link %s was removed", ifbName(b.Name)))
	case !to.Up:
		lost = append(lost, fmt.Sprintf("link %s was set down", to.Name))
	}
	if to != nil && redirected.To != to.Index {
		lost = append(lost, fmt.Sprintf("the filter that leads what %s receives to the plans was removed", b.Name))
	}
	details = r.planDetails(sides, whose, numbers)
	if len(lost) > 0 || !sides[0].empty() || !sides[1].empty() {
		change := plan.Change{Action: plan.Modify, Object: plansObject(b.Name), Details: details, Effect: "packets of the other subscribers are not touched"}
		if sides[0].change.Plant || sides[1].change.Plant {
			change.Action, change.Effect, change.To = plan.Add, "", fmt.Sprintf("%d subscribers", len(whose))
			if now := roots[index]; now != nil && now.Foreign() && index != 0 {
				change.Details = append(change.Details, fmt.Sprintf("replaces the queueing discipline %s of %s, which is not Minne's; it does not come back", now.Kind, b.Name))
			}
		}
		was := few(lost, 3)
		if r.came(b) {
			was = ""
		}
		r.add(change, func(ctx context.Context) error { return r.grow(ctx, b, sides) }).of(b.Name, was)
	}
	for _, side := range sides {
		if len(side.stale) > 0 {
			r.removal(plan.Change{Action: plan.Remove, Object: fmt.Sprintf("classes of %d former subscribers (%s) of %s", len(side.stale), direction(side.down), plansObject(b.Name))},
				func(ctx context.Context) error {
					return r.system.changeTree(ctx, side.link, tc.TreeChange{Remove: side.stale})
				}).of(b.Name, fmt.Sprintf("classes were added to the plans of %s, which are nobody's", b.Name))
		}
	}
	return nil
}

// plansObject names the trees of an interface in previews, logs and faults.
func plansObject(name string) string { return "plans of subscribers behind " + name }

func direction(down bool) string {
	if down {
		return "down"
	}
	return "up"
}

// few joins the first words of a list, and says how many more there are.
func few(list []string, most int) string {
	if len(list) > most {
		return fmt.Sprintf("%s; and %d more", strings.Join(list[:most], "; "), len(list)-most)
	}
	return strings.Join(list, "; ")
}

// planDetails are the subscribers whose classes change, in words.
func (r *round) planDetails(sides []*sorted, whose map[uint16]*DesiredSubscriber, numbers map[string]uint16) (words []string) {
	const most = 10
	changed := map[string]*DesiredSubscriber{}
	for _, side := range sides {
		for _, c := range side.change.Classes {
			changed[whose[c.Minor].Name] = whose[c.Minor]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		if len(words) == most {
			return append(words, fmt.Sprintf("and %d more", len(changed)-most))
		}
		words = append(words, fmt.Sprintf("%s: %s", name, changed[name].words()))
	}
	return words
}

// side compares one direction of an interface.
func (r *round) side(ctx context.Context, b *bound, side *sorted, whose map[uint16]*DesiredSubscriber, kinds map[string]string, root *tc.Discipline, leaves map[uint16]*tc.Discipline) error {
	whole := uint16(0)
	if b.Tree.Whole != "" {
		whole = wholeClass
	}
	own := side.link != 0 && root != nil && root.Own() && root.Kind == "htb" && root.Default == whole
	now := map[uint16]tc.Class{}
	if own {
		classes, err := r.system.classes(ctx, side.link)
		if err != nil {
			return fmt.Errorf("list classes of %s: %w", b.Name, err)
		}
		for _, c := range classes {
			now[c.Minor] = c.Class
		}
		program, err := r.system.sorter(side.link)
		if err != nil {
			return err
		}
		_, mine := r.sorting.program.Program(side.down)
		side.attach = whole == 0 && program != mine
		if side.attach {
			side.lost = append(side.lost, fmt.Sprintf("the classifier of subscribers (%s) of %s was changed", direction(side.down), b.Name))
		}
	} else {
		side.change.Plant, side.change.Whole, side.attach, leaves = true, whole, whole == 0, nil
		if side.link != 0 {
			side.lost = append(side.lost, fmt.Sprintf("the queueing discipline htb of %s (%s) was removed", b.Name, direction(side.down)))
		}
	}
	for _, minor := range slices.Sorted(maps.Keys(whose)) {
		s := whose[minor]
		want := s.class(minor, side.down)
		has, there := now[minor]
		if !there || !want.Same(has) {
			side.change.Classes = append(side.change.Classes, want)
			if own {
				side.lost = append(side.lost, fmt.Sprintf("the speed of subscriber %s (%s) was changed", s.Name, direction(side.down)))
			}
		}
		delete(now, minor)
		wants, held := leaf(kinds[s.Plan], want.Rate, side.down), tc.Leaf{}
		if d := leaves[minor]; d != nil {
			held = d.Leaf()
		}
		if wants.Same(held) {
			continue
		}
		fresh := wants.Kind != held.Kind || wants.Codel.Flows != held.Codel.Flows
		side.change.Leaves = append(side.change.Leaves, tc.LeafChange{Minor: minor, Leaf: wants, Fresh: fresh})
		if own && there {
			side.lost = append(side.lost, fmt.Sprintf("the queue of subscriber %s (%s) was changed", s.Name, direction(side.down)))
		}
	}
	side.stale = slices.Sorted(maps.Keys(now))
	return nil
}

// grow changes the trees of an interface: classes first, then what leads packets there.
func (r *round) grow(ctx context.Context, b *bound, sides []*sorted) error {
	index, err := r.index(b)
	if err != nil {
		return err
	}
	ifb, err := r.ifb(b.Name)
	if err != nil {
		return err
	}
	begin := time.Now()
	defer func() { r.sorting.took = time.Since(begin) }()
	for _, side := range sides {
		at := index
		if !side.down {
			at = ifb
		}
		if err := r.system.changeTree(ctx, at, side.change); err != nil {
			return fmt.Errorf("plans of %s (%s): %w", b.Name, direction(side.down), err)
		}
		if side.attach {
			file, _ := r.sorting.program.Program(side.down)
			if err := r.system.sort(at, file); err != nil {
				return err
			}
		}
	}
	if err := r.system.setUp(ifb, true); err != nil {
		return err
	}
	if led, err := r.system.redirects(index); err != nil || led.To == ifb {
		return err
	}
	return r.system.redirect(index, ifb)
}

// ifb is the link for what an interface receives, made when there is none.
func (r *round) ifb(name string) (int, error) {
	ifb := &bound{DesiredInterface: DesiredInterface{Name: ifbName(name)}}
	to, err := r.index(ifb)
	if err != nil {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.Group = ifb.Name, ownedGroup
		if err := r.system.addLink(&netlink.Ifb{LinkAttrs: attrs}); err != nil {
			return 0, fmt.Errorf("make link %s of kind ifb (CONFIG_IFB, module ifb): %w", ifb.Name, err)
		}
		if to, err = r.index(ifb); err != nil {
			return 0, err
		}
	}
	quiet := "net/ipv6/conf/" + ifb.Name + "/disable_ipv6" // it is no interface that hosts are on
	if now, ok, err := r.system.setting(quiet); err == nil && ok && now != "1" {
		if err := r.system.setSetting(quiet, "1"); err != nil {
			return 0, err
		}
	}
	return to, nil
}

// entries compares the classifier's table.
func (r *round) entries(numbers map[string]uint16) {
	now := r.sorting.program.Entries()
	write, keep := map[sorter.Key]sorter.Subscriber{}, map[sorter.Key]bool{}
	for _, s := range r.desired.Subscribers {
		for _, k := range s.Keys {
			keep[k] = true
			if want := (sorter.Subscriber{Name: s.Name, Class: numbers[s.Name]}); now[k] != want {
				write[k] = want
			}
		}
	}
	var remove []sorter.Key
	for k := range now {
		if !keep[k] {
			remove = append(remove, k)
		}
	}
	if len(write)+len(remove) == 0 {
		return
	}
	change := plan.Change{Action: plan.Modify, Object: "addresses of subscribers", Details: []string{fmt.Sprintf("%d new or changed, %d removed", len(write), len(remove))}}
	r.add(change, func(context.Context) error { return r.sorting.program.Change(write, remove) })
}

// open loads the classifier.
func (s *sorting) open() (err error) {
	if s.program == nil {
		s.program, err = sorter.Load()
	}
	return err
}

// close forgets the classifier; trees that are still there keep theirs.
func (s *sorting) close() error {
	if s.program == nil {
		return nil
	}
	err := s.program.Close()
	s.program = nil
	return err
}

func (live) classes(ctx context.Context, index int) ([]tc.ClassNow, error) {
	return tc.Classes(ctx, index)
}
func (live) sorter(index int) (int, error)   { return tc.Sorter(index) }
func (live) sort(index, program int) error   { return tc.Sort(index, program) }
func (live) lacks(kind string) (bool, error) { return tc.Lacks(kind) }
func (live) changeTree(ctx context.Context, index int, c tc.TreeChange) error {
	return c.Change(ctx, index)
}
