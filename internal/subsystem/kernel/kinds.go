// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"minne/internal/base/plan"
	"minne/internal/model/config"
	"minne/internal/model/rib"
)

// Links that Minne makes. Each kind of interface has a file kind_NAME.go with a row of the table
// below; what the other parts of the router know of it is in the file of that name in model/config.
//
// A changed configuration means one of three things for a link: nothing; a change in place, which
// cuts no connection; or, where it is not the same link any more, that it is made anew.

// linkKind is how the kernel makes and keeps links of one kind.
type linkKind struct {
	name    string   // as config.Kind.Name
	links   []string // the kernel's words for such links (IFLA_INFO_KIND); none where that is name
	title   string   // in messages: "VLAN"
	lacking string   // what to do about a kernel that does not know the kind

	// want is the link that an interface asks for; its name, mark and parent are filled in later.
	want func(i *config.Interface) netlink.Link
	// same says whether a link is the one wanted, but for what can be changed in place.
	same func(want, now netlink.Link) bool
	// change says what has to be changed in place of the same link, "" for nothing; nil when nothing can be.
	change func(want, now netlink.Link) string
	// words tell a link from others of its kind: "VLAN 20".
	words func(l netlink.Link) string
	// refer fills in what the link refers to other links with, and what it takes from them; nil for nothing.
	refer func(want netlink.Link, b *bound)
	// adopts says that a link of the name that somebody else made is changed in place like Minne's own.
	adopts bool
	// describe fills in what the fast path has to know of a link, and its settings, of which change speaks; nil for nothing.
	describe func(l netlink.Link, to *rib.Link)
	// instead makes the link of a name where the kernel knows none of its kind; nil when nothing can.
	instead func(name string) error
}

var kinds = []*linkKind{&vlan, &dummy, &bond, &bridge, &vrf, &wireGuard, &tunnel}

// kindNamed returns the row of a kind of interface, nil for one that Minne does not make.
func kindNamed(name string) *linkKind {
	if n := slices.IndexFunc(kinds, func(k *linkKind) bool { return k.name == name }); n >= 0 {
		return kinds[n]
	}
	return nil
}

// kindOf returns the row of what the kernel calls a kind of link, nil for one that Minne does not make.
func kindOf(link string) *linkKind {
	if n := slices.IndexFunc(kinds, func(k *linkKind) bool { return k.makes(link) }); n >= 0 {
		return kinds[n]
	}
	return nil
}

// makes says whether what the kernel calls a kind of link is of this kind.
func (k *linkKind) makes(link string) bool {
	return slices.Contains(k.links, link) || k.links == nil && k.name == link
}

// borrowers are the kinds of links, Minne's or not, that show the MAC address of a link below.
var borrowers = []string{"vlan", "macvlan", "macvtap", "macsec", "ipvlan", "ipvtap", "bridge", "bond", "team", "vrf"}

// typed reads the body of an RTM_NEWLINK of a kind that Minne makes; k is nil for any other.
func typed(name string, body []byte) (k *linkKind, l netlink.Link) {
	if k = kindOf(name); k == nil {
		return nil, nil
	}
	l, err := netlink.LinkDeserialize(nil, body)
	if err != nil {
		return nil, nil
	}
	return k, l
}

// made returns the row of the kind of a link that Minne made, nil for any other link.
func (l *link) made() *linkKind {
	if l.Group != ownedGroup {
		return nil
	}
	return kindOf(l.Kind)
}

// on says what a link sits on.
func on(parents ...string) string {
	if len(parents) == 0 {
		return ""
	}
	return " on " + strings.Join(parents, ", ")
}

// kind returns the row of an interface whose link is made, nil for a port.
func (b *bound) kind() *linkKind {
	if b.Made == nil {
		return nil
	}
	return kindNamed(b.Kind.Name)
}

// request is the link that an interface asks for.
func (b *bound) request(parent int) netlink.Link {
	want, attrs := b.kind().want(b.Made), netlink.NewLinkAttrs()
	attrs.Name, attrs.Group, attrs.ParentIndex = b.Name, ownedGroup, parent
	*want.Attrs() = attrs
	if refer := b.kind().refer; refer != nil {
		refer(want, b)
	}
	return want
}

// words say what an interface's link is, and on what it sits.
func (b *bound) words() string {
	var names []string
	for _, p := range b.parents {
		names = append(names, p.Name)
	}
	return b.kind().words(b.request(0)) + on(names...)
}

// bindMade finds the link of an interface whose link is made; while that has to be done, there is none.
func (b *bound) bindMade(links []link) {
	parent := 0
	for n, p := range b.parents {
		if p.missing {
			b.leaveOut(nil) // the parent's own error says it
			return
		}
		if p.link == nil {
			return
		}
		if n == 0 {
			parent = p.link.Index
		}
	}
	want := b.request(parent)
	for n := range links {
		if l := &links[n]; b.kind().makes(l.Kind) && b.kind().same(want, l.as) {
			b.link = l
			return
		}
	}
}

// makeLinks makes the links that are missing, parents first as the interfaces are ordered, and
// changes the others in place.
func (r *round) makeLinks() {
	for _, b := range r.bound {
		switch k := b.kind(); {
		case k == nil || b.missing:
		case b.link != nil:
			r.changeLink(k, b)
		default:
			change := plan.Change{Action: plan.Add, Object: b.words() + " as " + b.Name}
			if b.former != nil {
				change = plan.Change{Action: plan.Reset, Object: "link " + b.Name, From: r.linkWords(b.former), To: b.words(), Effect: "made anew"}
			}
			r.add(change, func(context.Context) error { return r.makeLink(k, b) }).
				of(b.Name, fmt.Sprintf("%s %s was removed", k.title, b.Name)).vital = true
		}
	}
}

func (r *round) makeLink(k *linkKind, b *bound) error {
	parent := 0
	if len(b.parents) > 0 {
		var err error
		if parent, err = r.index(b.parents[0]); err != nil {
			return err
		}
	}
	err := r.system.addLink(b.request(parent))
	if errors.Is(err, unix.EOPNOTSUPP) && k.instead != nil {
		err = r.makeInstead(k, b, err)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("%s: %w", k.lacking, err)
	}
	return err
}

// makeInstead has the link made by other means than the kernel's; lacking is what the kernel said.
func (r *round) makeInstead(k *linkKind, b *bound, lacking error) error {
	err := k.instead(b.Name)
	if errors.Is(err, exec.ErrNotFound) {
		return lacking
	}
	if err != nil {
		return err
	}
	index, err := r.index(b)
	if err != nil {
		return err
	}
	return r.system.setGroup(index, ownedGroup)
}

// linkWords say what a link that Minne made is, and on what it sits.
func (r *round) linkWords(l *link) string {
	var parents []string
	for _, p := range r.links {
		if l.Parent != 0 && p.Index == l.Parent {
			parents = append(parents, p.Name)
		}
	}
	return l.made().words(l.as) + on(parents...)
}

// changeLink changes in place what is not as it should be of a link that Minne made.
func (r *round) changeLink(k *linkKind, b *bound) {
	if k.change == nil || b.link.made() == nil && !k.adopts {
		return
	}
	want := b.request(b.link.Parent)
	want.Attrs().Index, want.Attrs().Group = b.link.Index, b.link.Group
	if what := k.change(want, b.link.as); what != "" {
		r.add(plan.Change{Action: plan.Modify, Object: what + " of " + b.Name, Effect: "in place"},
			func(context.Context) error { return r.system.changeLink(want) }).
			of(b.Name, fmt.Sprintf("%s of %s were changed", what, b.Name))
	}
}

// removeLinks removes the links that Minne made and nobody wants any more, the ones on top first.
func (r *round) removeLinks() {
	for n := len(r.links) - 1; n >= 0; n-- { // a link is younger than its parent
		l := &r.links[n]
		if l.made() == nil || r.lenient && r.absent != nil ||
			slices.ContainsFunc(r.bound, func(b *bound) bool { return b.link == l || b.Name == l.Name }) {
			continue
		}
		r.removal(plan.Change{Action: plan.Remove, Object: l.made().title + " " + l.Name}, r.removeLink(l))
	}
}

// removeLink removes a link that Minne made, perhaps with its parent.
func (r *round) removeLink(l *link) func(context.Context) error {
	return func(context.Context) error {
		if err := r.system.removeLink(l.Index); !errors.Is(err, unix.ENODEV) {
			return err
		}
		return nil // it went with its parent
	}
}
