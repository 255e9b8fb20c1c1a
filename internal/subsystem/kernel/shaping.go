// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"minne/internal/base/plan"
	"minne/internal/base/tc"
	"minne/internal/model/config"
)

// Shaped lines. What leaves waits in a cake on the interface. What comes in is redirected to a link of kind ifb, which has
// a cake of its own, and comes back from there as if it had just been received.
//
// Minne knows its own by marks: cake by its handle, the redirecting filter by its priority, the ifb link by its group.
// A discipline of somebody else's on the interface gives way, and the preview says so; filters of others stay.

// ifbKind is the kernel's name for the links that what comes in is redirected to.
const ifbKind = "ifb"

// DesiredShape is how the two directions of a line wait; nil for one that is not shaped.
type DesiredShape struct{ Down, Up *tc.Cake }

var cakeDiffserv = map[config.DiffservMode]tc.CakeDiffserv{"besteffort": tc.BestEffort, "diffserv3": tc.Diffserv3, "diffserv4": tc.Diffserv4, "diffserv8": tc.Diffserv8}

// renderShape is what an interface's section asks for.
func renderShape(s *config.Shape) (d DesiredShape) {
	if s == nil {
		return d
	}
	const bitsOfByte = 8
	direction := func(rate config.Rate, hosts tc.CakeFlows, ingress bool) *tc.Cake {
		if rate == 0 {
			return nil
		}
		added, least, atm, ptm := s.Overhead.Bytes()
		c := tc.Cake{Rate: uint64(rate) / bitsOfByte, Diffserv: cakeDiffserv[s.Diffserv], Flows: tc.Flows, Ingress: ingress,
			Overhead: int32(added), MPU: uint32(least), RTT: uint32(s.RTT.Std() / time.Microsecond)}
		switch {
		case atm:
			c.Cells = tc.ATM
		case ptm:
			c.Cells = tc.PTM
		}
		if s.PerHost.On() {
			c.Flows, c.NAT = hosts, true
		}
		return &c
	}
	return DesiredShape{Down: direction(s.Down, tc.DualDestHost, true), Up: direction(s.Up, tc.DualSrcHost, false)}
}

// ifbName is the name of the link for what an interface receives: at most 15 bytes.
func ifbName(name string) string {
	const prefix, room = "ifb-", 11
	if len(name) <= room {
		return prefix + name
	}
	sum := fnv.New32a()
	fmt.Fprint(sum, name)
	return fmt.Sprintf("%s%s~%04x", prefix, name[:room-5], uint16(sum.Sum32()))
}

// shapingObject names one direction of a line in previews, logs and faults.
func shapingObject(direction, name string) string { return "shape " + direction + " of " + name }

// rateWords is the rate of a cake as the configuration has it.
func rateWords(c *tc.Cake) string { return config.Rate(c.Rate * 8).String() }

// shaping compares the queueing disciplines of lines.
func (r *round) shaping(ctx context.Context) error {
	all, err := r.system.disciplines(ctx)
	if err != nil {
		return fmt.Errorf("list queueing disciplines: %w", err)
	}
	wanted := map[int]bool{} // links that have Minne's cake
	before := len(r.steps)
	for _, b := range r.bound {
		if b.Shape.Up != nil {
			r.shapeUp(b, all)
			if b.link != nil {
				wanted[b.link.Index] = true
			}
		}
		if b.Shape.Down != nil {
			ifb, err := r.shapeDown(b, all)
			if err != nil {
				return err
			}
			wanted[ifb] = true
		}
	}
	if len(r.steps) > before {
		lacks, err := r.system.lacksCake()
		if err != nil {
			return err
		}
		if lacks {
			r.steps = r.steps[:before]
			return errors.New("shape: this kernel has no queueing discipline cake, which shapes lines (CONFIG_NET_SCH_CAKE, module sch_cake): use Debian's kernel, or remove the sections shape")
		}
	}
	if err := r.plans(ctx, all, wanted); err != nil {
		return err
	}
	if r.lenient && r.absent != nil {
		return nil // whose they are is not known
	}
	return r.unshape(all, wanted)
}

// rootOf is the discipline that a link sends through, nil for none.
func rootOf(all []tc.Discipline, link int) *tc.Discipline {
	if n := slices.IndexFunc(all, func(d tc.Discipline) bool { return d.Link == link && d.Parent == tc.Root }); n >= 0 {
		return &all[n]
	}
	return nil
}

// different says what is not as wanted in place of a cake: nothing, settings to be changed in place, or all.
func different(want tc.Cake, now *tc.Discipline) (wrong, inPlace bool) {
	own := now != nil && now.Own() && now.Kind == "cake"
	return !own || now.Cake != want, own
}

// came says whether the link of an interface is another one than in the last look: then nobody has taken anything away.
func (r *round) came(b *bound) bool { return b.link == nil || r.had[b.Name] != b.link.Index }

// shapeUp compares what leaves by an interface.
func (r *round) shapeUp(b *bound, all []tc.Discipline) {
	var now *tc.Discipline
	if b.missing {
		return
	}
	if b.link != nil {
		now = rootOf(all, b.link.Index)
	}
	wrong, inPlace := different(*b.Shape.Up, now)
	if !wrong {
		return
	}
	object := shapingObject("up", b.Name)
	change := plan.Change{Action: plan.Add, Object: object, To: rateWords(b.Shape.Up)}
	was := fmt.Sprintf("the queueing discipline of %s was removed", b.Name)
	switch {
	case inPlace:
		change = plan.Change{Action: plan.Modify, Object: object, From: rateWords(&now.Cake), To: rateWords(b.Shape.Up), Effect: "in place, no packet is lost"}
		was = fmt.Sprintf("the queueing discipline of %s was set differently", b.Name)
	case now != nil && now.Foreign():
		change.Details = []string{fmt.Sprintf("replaces the queueing discipline %s of %s, which is not Minne's; it does not come back", now.Kind, b.Name)}
		was = fmt.Sprintf("the queueing discipline of %s was replaced by %s", b.Name, now.Kind)
	}
	if r.came(b) {
		was = ""
	}
	r.add(change, r.on(b, func(index int) error { return r.system.setCake(index, *b.Shape.Up, inPlace) })).of(b.Name, was)
}

// ifbOf is the link for what an interface receives, nil while there is none.
func (r *round) ifbOf(name string) (*link, error) {
	n := slices.IndexFunc(r.links, func(l link) bool { return l.Name == ifbName(name) })
	switch {
	case n < 0:
		return nil, nil
	case r.links[n].Kind != ifbKind || r.links[n].Group != ownedGroup:
		return nil, &InterfaceError{name, fmt.Sprintf("shape down needs a link named %s, and another one has this name; rename that link", ifbName(name))}
	}
	return &r.links[n], nil
}

// shapeDown compares what comes in by an interface, and returns the index of the link for it, 0 for none.
func (r *round) shapeDown(b *bound, all []tc.Discipline) (ifb int, err error) {
	to, err := r.ifbOf(b.Name)
	if err != nil {
		return 0, err
	}
	var now *tc.Discipline
	if to != nil {
		ifb, now = to.Index, rootOf(all, to.Index)
	}
	if b.missing {
		return ifb, nil
	}
	wrong, inPlace := different(*b.Shape.Down, now)
	var redirected tc.Redirected
	if b.link != nil {
		if redirected, err = r.system.redirects(b.link.Index); err != nil {
			return ifb, err
		}
	}
	change := plan.Change{Action: plan.Modify, Object: shapingObject("down", b.Name), To: rateWords(b.Shape.Down)}
	var was []string
	if to == nil {
		was = append(was, fmt.Sprintf("link %s was removed", ifbName(b.Name)))
	} else if !to.Up {
		was = append(was, fmt.Sprintf("link %s was set down", to.Name))
	}
	switch {
	case to == nil:
		change.Action = plan.Add
	case wrong && inPlace:
		change.From, change.Effect = rateWords(&now.Cake), "in place, no packet is lost"
		was = append(was, fmt.Sprintf("the queueing discipline of %s was set differently", to.Name))
	case wrong && now != nil && now.Foreign():
		was = append(was, fmt.Sprintf("the queueing discipline of %s was replaced by %s", to.Name, now.Kind))
	case wrong:
		was = append(was, fmt.Sprintf("the queueing discipline of %s was removed", to.Name))
	}
	if to != nil && redirected.To != to.Index {
		was = append(was, fmt.Sprintf("the filter that leads what %s receives to its shaper was removed", b.Name))
	}
	if len(was) == 0 {
		return ifb, nil
	}
	words := strings.Join(was, "; ")
	if r.came(b) {
		words = ""
	}
	r.add(change, func(context.Context) error { return r.redirectDown(b, inPlace) }).of(b.Name, words)
	return ifb, nil
}

// redirectDown puts in place all that what an interface receives needs: the far end of the way first.
func (r *round) redirectDown(b *bound, inPlace bool) error {
	index, err := r.index(b)
	if err != nil {
		return err
	}
	to, err := r.ifb(b.Name)
	if err != nil {
		return err
	}
	if err := r.system.setCake(to, *b.Shape.Down, inPlace); err != nil {
		return err
	}
	if err := r.system.setUp(to, true); err != nil {
		return err
	}
	return r.system.redirect(index, to)
}

// unshape takes away what Minne put in place and nobody wants any more: the filter before the link that it leads to.
func (r *round) unshape(all []tc.Discipline, wanted map[int]bool) error {
	nameOf := func(index int) string {
		for _, l := range r.links {
			if l.Index == index {
				return l.Name
			}
		}
		return ""
	}
	shapesDown := func(index int) bool {
		return slices.ContainsFunc(r.bound, func(b *bound) bool { return b.leadsIn() && b.link != nil && b.link.Index == index })
	}
	for _, d := range all {
		d, name := d, nameOf(d.Link)
		switch {
		case name == "":
		case d.Own() && d.Parent == tc.Root && !wanted[d.Link] && !r.ownIfb(d.Link):
			object := shapingObject("up", name)
			if d.Kind == "htb" {
				object = plansObject(name)
			}
			r.removal(plan.Change{Action: plan.Remove, Object: object}, func(context.Context) error { return r.system.removeRoot(d.Link) }).
				of(name, fmt.Sprintf("a queueing discipline of Minne's was added to %s, which is not configured", name))
		case (d.Kind == "ingress" || d.Kind == "clsact") && !shapesDown(d.Link):
			there, err := r.system.redirects(d.Link)
			if err != nil {
				return err
			}
			if there.Own > 0 {
				r.removal(plan.Change{Action: plan.Remove, Object: "filter that leads what " + name + " receives to a queue"}, func(context.Context) error { return r.system.endRedirect(d.Link) }).
					of(name, fmt.Sprintf("a filter of Minne's was added to %s, which is not configured", name))
			}
		}
	}
	for _, l := range r.links {
		if r.ownIfb(l.Index) && !slices.ContainsFunc(r.bound, func(b *bound) bool { return b.leadsIn() && ifbName(b.Name) == l.Name }) {
			r.removal(plan.Change{Action: plan.Remove, Object: "link " + l.Name}, func(context.Context) error { return r.system.removeLink(l.Index) })
		}
	}
	return nil
}

// leadsIn says whether what an interface receives waits.
func (b *bound) leadsIn() bool { return b.Shape.Down != nil || b.Tree != nil }

// ownIfb says whether a link is one that Minne made for what an interface receives.
func (r *round) ownIfb(index int) bool {
	return slices.ContainsFunc(r.links, func(l link) bool { return l.Index == index && l.Kind == ifbKind && l.Group == ownedGroup })
}

func (live) disciplines(ctx context.Context) ([]tc.Discipline, error) { return tc.Disciplines(ctx) }
func (live) redirects(index int) (tc.Redirected, error)               { return tc.Redirects(index) }
func (live) lacksCake() (bool, error)                                 { return tc.LacksCake() }
func (live) setCake(index int, c tc.Cake, inPlace bool) error         { return tc.SetCake(index, c, inPlace) }
func (live) removeRoot(index int) error                               { return tc.RemoveRoot(index) }
func (live) redirect(index, to int) error                             { return tc.Redirect(index, to) }
func (live) endRedirect(index int) error                              { return tc.EndRedirect(index) }
