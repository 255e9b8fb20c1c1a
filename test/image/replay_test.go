// SPDX-License-Identifier: Apache-2.0

//go:build image

package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"minne/internal/appliance/slot"
	"minne/internal/appliance/upgrade"
	"minne/internal/model/revisions"
	"minne/internal/testing/testimage"
)

// How often the power fails in a session's log.
const (
	cutsOfCommits  = 400
	cutsOfUpgrade  = 800
	bootedAfterCut = 3
)

// session is what a machine did to its disk, with the moments that matter: bytes of the log.
type session struct {
	t         *testing.T
	log       string
	confirmed map[int]int64 // revision → when the router had said to have it
	begin     int64         // the upgrade is asked for
	written   int64         // the router restarts
	judged    int64         // the new system is said to stay
}

func (s *session) now() int64 {
	s.t.Helper()
	info, err := os.Stat(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	return info.Size()
}

// revision is the text of a revision.
func revision(number int) string {
	switch number {
	case 1:
		return plain
	case 2:
		return reachable
	}
	return strings.Replace(reachable, "edge", fmt.Sprintf("edge%d", number), 1)
}

// commits makes ten revisions.
func (s *session) commits(m *testimage.Machine) {
	s.t.Helper()
	s.confirmed = map[int]int64{2: s.now()}
	for number := 3; number <= 12; number++ {
		configure(m, revision(number))
		s.confirmed[number] = s.now()
	}
}

// cut replays the session's writes onto the disk it began with, lets the power fail at
// random moments, and looks at what the medium has then. It returns a few of these media.
//
// Harder than the plug: writes that the router did not wait for are there or not, each
// sector by itself.
func (s *session) cut(base string) (media []string) {
	t := s.t
	t.Helper()
	r := testimage.NewReplay(t, base, s.log)
	l := &look{session: s, r: r, parts: partitions(t, base), dir: t.TempDir()}
	begin, judged := l.before(s.begin), l.before(s.judged)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d; %d writes and waits while it commits, %d while it upgrades", seed, begin, judged-begin)
	if l.wrote("minne-a", 0, len(r.Writes)) || l.wrote("minne-b", 0, begin) {
		t.Error("the slot of the running system was written to, or the other one by an upgrade that was refused")
	}
	moments := l.moments(random, begin, judged)
	boot := map[int]bool{}
	for len(boot) < bootedAfterCut {
		boot[cutsOfCommits+random.IntN(cutsOfUpgrade)] = true
	}
	for i, n := range moments {
		kept := []float64{0, 0.5, 0.5, 1}[random.IntN(4)]
		if err := r.Cut(n, kept, random); err != nil {
			t.Fatal(err)
		}
		torn := l.torn
		if err := l.at(n); err != nil {
			t.Errorf("power cut behind write %d, %v of what was not waited for kept: %v", n, kept, err)
		}
		if boot[i] || torn == 0 && l.torn == 1 {
			media = append(media, l.copy(n))
		}
	}
	t.Logf("%d power cuts: %d times the old system boots, %d times the new one is tried, %d times it is the good one; file system repaired and revisions read %d times, %d times with a torn superblock",
		len(moments), l.old, l.tried, l.good, l.repaired, l.torn)
	if l.old == 0 || l.tried == 0 || l.good == 0 {
		t.Error("expected all of these")
	}
	return media
}

// look is at a medium whose power failed.
type look struct {
	*session
	r                          *testimage.Replay
	parts                      map[string]part
	dir                        string
	bAt, configAt              int // stable writes when these were looked at
	bWhole                     error
	old, tried, good, repaired int
	torn                       int // with a superblock that is half old
}

// before is the number of writes up to a byte of the log.
func (l *look) before(at int64) int {
	n := 0
	for n < len(l.r.Writes) && l.r.Writes[n].End <= at {
		n++
	}
	return n
}

func (l *look) wrote(partition string, from, to int) bool {
	p := l.parts[partition]
	for _, w := range l.r.Writes[from:to] {
		if w.Data != nil && w.At+int64(len(w.Data)) > p.start && w.At < p.start+p.size {
			return true
		}
	}
	return false
}

// moments are those of the power cuts, in their order. Most of an upgrade is its
// payload, so half of its cuts are where something else is written.
func (l *look) moments(random *rand.Rand, begin, judged int) []int {
	var commits, all, rest []int
	for range cutsOfCommits {
		commits = append(commits, random.IntN(begin+1))
	}
	for n := begin; n <= judged; n++ {
		if !l.wrote("minne-b", n-1, n) {
			rest = append(rest, n)
		}
	}
	for range cutsOfUpgrade / 2 {
		all = append(all, begin+random.IntN(judged-begin+1), rest[random.IntN(len(rest))])
	}
	all = append(all, judged)
	slices.Sort(commits)
	slices.Sort(all)
	return append(commits, all...)
}

// at looks at the medium as the cut behind n writes left it.
func (l *look) at(n int) error {
	p := l.parts["minne-state"]
	state, err := slot.LoadState(io.NewSectionReader(l.r, p.start, p.size))
	if err != nil {
		return err
	}
	if state.Slot == "b" || state.Try == "b" {
		if err := l.whole(n); err != nil {
			return fmt.Errorf("with %+v: slot b: %w", state, err)
		}
	}
	switch {
	case state.Slot == "b":
		l.good++
	case n >= l.before(l.judged):
		return fmt.Errorf("the new system was found good, the boot state is %+v", state)
	case state.Try == "b":
		l.tried++
	default:
		l.old++
	}
	return l.config(n)
}

// whole tells what is wrong with slot b.
func (l *look) whole(n int) error {
	p := l.parts["minne-b"]
	if l.bAt == n || l.bAt > 0 && !l.wrote("minne-b", l.bAt, n) && !l.r.Touched(p.start, p.start+p.size) {
		return l.bWhole
	}
	section := io.NewSectionReader(l.r, p.start, p.size)
	trailer, err := slot.Read(section, p.size)
	if err == nil {
		err = trailer.CheckPayload(section)
	}
	if l.bAt = 0; !l.r.Touched(p.start, p.start+p.size) {
		l.bAt, l.bWhole = n, err
	}
	return err
}

// config repairs the configuration's file system, as the kernel and the router do, and
// reads what is in it.
func (l *look) config(n int) error {
	p := l.parts["minne-config"]
	if l.configAt > 0 && !l.wrote("minne-config", l.configAt, n) && !l.r.Touched(p.start, p.start+p.size) {
		return nil
	}
	if l.configAt = 0; !l.r.Touched(p.start, p.start+p.size) {
		l.configAt = n
	}
	l.repaired++
	copied, files := filepath.Join(l.dir, "config.img"), filepath.Join(l.dir, "files")
	if err := errors.Join(os.RemoveAll(files), os.Mkdir(files, 0o755), l.r.Copy(copied, p.start, p.size)); err != nil {
		return err
	}
	// Replays the journal, as the kernel does when it mounts; 1 is "repaired". A superblock of
	// which one sector is new and one old can't be mounted: "minne boot" takes its copy then.
	if out, err := exec.Command("e2fsck", "-p", copied).CombinedOutput(); exitCode(err) > 1 {
		if !strings.Contains(string(out), "Superblock checksum") {
			return fmt.Errorf("e2fsck -p: %v: %s", err, out)
		}
		if out, err := exec.Command("e2fsck", "-y", copied).CombinedOutput(); exitCode(err) > 1 {
			return fmt.Errorf("e2fsck -y: %v: %s", err, out)
		}
		l.torn++
	}
	if out, err := exec.Command("debugfs", "-R", "rdump /var/lib/minne "+files, copied).CombinedOutput(); err != nil {
		return fmt.Errorf("debugfs: %v: %s", err, out)
	}
	return errors.Join(l.revisions(n, filepath.Join(files, "minne/revisions")), l.promise(n, filepath.Join(files, "minne/upgrade.json")))
}

// exitCode is that of a program, which did run.
func exitCode(err error) int {
	var code *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return code.ExitCode()
	}
	return 1 << 10
}

// revisions checks that the last one that the router had said to have is there.
func (l *look) revisions(n int, dir string) error {
	store, err := revisions.Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	promised := 1
	for number, at := range l.confirmed {
		if l.before(at) <= n {
			promised = max(promised, number)
		}
	}
	last, ok := store.Confirmed(0)
	if !ok || last.Number < promised {
		return fmt.Errorf("the last confirmed revision is %d, the router had confirmed %d", last.Number, promised)
	}
	if want := revision(last.Number); strings.TrimSpace(last.Config) != strings.TrimSpace(want) {
		return fmt.Errorf("revision %d is not what it was:\n%s", last.Number, last.Config)
	}
	return nil
}

// promise checks that what the new system is judged by is whole, and there once the router restarts.
func (l *look) promise(n int, file string) error {
	p, err := upgrade.ReadPromise(file)
	if errors.Is(err, fs.ErrNotExist) && n < l.before(l.written) {
		return nil
	}
	if err == nil && p.To.Version != "next" {
		err = fmt.Errorf("it is of version %s", p.To.Version)
	}
	if err != nil {
		return fmt.Errorf("what worked before the upgrade is not known: %w", err)
	}
	return nil
}

// copy makes a disk of the medium.
func (l *look) copy(n int) string {
	l.t.Helper()
	disk := filepath.Join(l.dir, fmt.Sprintf("cut-%d.img", n))
	info, err := os.Stat(imageFile(l.t))
	if err == nil {
		err = l.r.Copy(disk, 0, info.Size())
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return disk
}

// bootsAfterCut starts a machine with such a disk.
func bootsAfterCut(t *testing.T, disk string) {
	t.Helper()
	was := state(t, disk)
	m := testimage.Boot(t, testimage.Options{Disk: disk, Ports: 2, Extra: behind})
	if was.Try == "b" {
		stays(t, m, "b")
	} else {
		runs(m, was.Slot)
	}
	forwards(t, m)
	t.Logf("booted %s, %+v:\n%s", filepath.Base(disk), was, m.Run("minne upgrade --status"))
	m.Off()
}
