// SPDX-License-Identifier: Apache-2.0

package automaton

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"minne/internal/subsystem/fastpath/tableimage"
	"minne/internal/testing/nativetest"
)

// foundWords is FOUND_WORDS of testdata/search.c.
const foundWords = 256

// native is testdata/search.c under way.
type native struct {
	t      *testing.T
	mu     sync.Mutex
	to     *bufio.Writer
	from   io.Reader
	errors bytes.Buffer
}

func startNative(t *testing.T, flags ...string) *native {
	t.Helper()
	n := &native{t: t}
	program, err := nativetest.Compile(t.TempDir(), "../../../..", "testdata/search.c", flags...)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "check")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	n.to = bufio.NewWriter(in)
	if n.from, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &n.errors
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("search: %v\n%s", err, n.errors.String())
		}
	})
	return n
}

// ask runs one case and returns the bitmap of the patterns found.
func (n *native) ask(img []byte, pieces [][]byte) []uint32 {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	number := func(v int) { binary.Write(n.to, binary.NativeEndian, uint32(v)) }
	number(len(img))
	n.to.Write(img)
	number(len(pieces))
	for _, p := range pieces {
		number(len(p))
		n.to.Write(p)
	}
	if err := n.to.Flush(); err != nil {
		n.t.Fatalf("search: %v\n%s", err, n.errors.String())
	}
	words := make([]uint32, foundWords)
	if err := binary.Read(n.from, binary.NativeEndian, words); err != nil {
		n.t.Fatalf("search: %v\n%s", err, n.errors.String())
	}
	return words
}

func numbers(words []uint32) []int {
	var ids []int
	for id := range 32 * len(words) {
		if words[id/32]>>(id%32)&1 != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func (n *native) finder(o Options) finder {
	return func(patterns []Pattern) (search, error) {
		a, err := Compile(patterns, o)
		if err != nil {
			return nil, err
		}
		img := a.Image().Bytes(binary.NativeEndian)
		return func(pieces [][]byte) []int { return numbers(n.ask(img, pieces)) }, nil
	}
}

func TestNativeAgrees(t *testing.T) {
	t.Parallel()
	n := startNative(t, nativetest.Checked...)
	agree(t, n.finder(Options{States: 500, Defaults: 8, Rows: 2}), 500, 11)
	agree(t, n.finder(Options{Hybrid: true, States: 200}), 500, 12)
	agree(t, n.finder(Options{Hybrid: true, States: 200, tailStates: 2}), 500, 13)
}

// TestNativeCorrupt searches with images whose words are broken at random. Whatever is found, the
// search ends and the sanitizers see no wrong read or write.
func TestNativeCorrupt(t *testing.T) {
	t.Parallel()
	n := startNative(t, nativetest.Checked...)
	r := randomRegex{rand.New(rand.NewPCG(14, 5))}
	refused := 0
	rounds := 400
	if testing.Short() {
		rounds /= 5
	}
	for range rounds {
		o := Options{States: 200, Defaults: 8, Rows: 2, Hybrid: r.IntN(3) > 0}
		if r.IntN(2) == 0 {
			o.tailStates = 2
		}
		a, err := Compile(r.patterns(), o)
		if err != nil {
			continue
		}
		broken := tableimage.Image{Kind: a.Image().Kind, Words: slices.Clone(a.Image().Words)}
		for range 1 + r.IntN(40) {
			at := r.IntN(len(broken.Words))
			switch r.IntN(3) {
			case 0:
				broken.Words[at] = r.Uint32()
			case 1:
				broken.Words[at] ^= 1 << r.IntN(32)
			default:
				broken.Words[at] = broken.Words[r.IntN(len(broken.Words))]
			}
		}
		broken.Words[1] = uint32(broken.Kind) // else another algorithm would be asked
		if found := n.ask(broken.Bytes(binary.NativeEndian), r.pieces(bytes.Repeat(r.data(), 5))); found[foundWords-1] == ^uint32(0) && found[0] == ^uint32(0) {
			refused++
		}
	}
	t.Logf("%d of %d refused", refused, rounds)
	if refused > rounds/2 {
		t.Errorf("%d of %d were refused: hardly any search was made", refused, rounds)
	}
}
