// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A guard's owner outlives its process, is found by the next one, and is never in its way.
func TestOwner(t *testing.T) {
	const table = "lab_owner"
	g := Guard{Table: table, Comment: "a guard", Mark: 1 << 31}
	here := func() *owner {
		owners.Lock()
		defer owners.Unlock()
		for _, o := range owners.open {
			return o
		}
		return nil
	}
	die := func() { // what a kill does to the socket
		o := here()
		owners.Lock()
		o.keeper = nil // nobody starts another
		owners.open = nil
		owners.Unlock()
		o.close()
	}
	port := func() uint32 {
		t.Helper()
		p, err := ownerOf(table)
		must(t, err)
		return p
	}
	wantHolders := func(want int) (list []holder) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			list, err := holdersOf(port())
			must(t, err)
			if len(list) == want || time.Now().After(end) {
				if len(list) != want {
					t.Errorf("%d other processes have the socket, want %d", len(list), want)
				}
				return list
			}
		}
	}
	wantGuarded := func(want bool) {
		t.Helper()
		must(t, exec.Command("nft", "flush", "ruleset").Run())
		if _, there, err := Comment(table); err != nil || there != want {
			t.Errorf("nft flush ruleset leaves the guard: %t, %v; want %t", there, err, want)
		}
	}
	if here() != nil { // of another test
		die()
	}
	KeepOwner(func(err error) { must(t, err) })
	must(t, g.Write())
	keeper := wantHolders(1)[0]
	first := port()
	die()
	wantGuarded(true)
	must(t, g.Write()) // the next process
	if port() != first || wantHolders(1)[0].pid != keeper.pid {
		t.Errorf("the next process owns the guard by port %d, had %d", port(), first)
	}
	// Who kills the keeper gets another.
	must(t, unix.Kill(keeper.pid, unix.SIGKILL))
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if list, err := holdersOf(port()); err == nil && len(list) == 1 && list[0].pid != keeper.pid {
			break
		} else if time.Now().After(end) {
			t.Fatalf("no other keeper: %v %v", list, err)
		}
	}
	// A socket that can't be had goes with its keeper, and the guard is anybody's.
	die()
	wantGuarded(true)
	wantHolders(1)[0].end()
	for end := time.Now().Add(20 * time.Second); port() != 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
	}
	must(t, g.Write())
	wantGuarded(true)
	pid := wantHolders(1)[0].pid
	die()
	must(t, LetGo(table))
	if _, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/fd/3"); err == nil {
		t.Errorf("the keeper %d goes on", pid)
	}
	if port() != 0 {
		t.Error("the guard has an owner")
	}
	wantGuarded(false)
	// With a process that owns it, too.
	KeepOwner(func(err error) { must(t, err) })
	must(t, g.Write())
	wantHolders(1)
	must(t, LetGo(table))
	wantHolders(0)
	KeepOwner(func(err error) { must(t, err) })
	must(t, g.Write())
	wantHolders(1)
	must(t, Remove(table))
	if here().keeper != nil {
		t.Error("without a guard there is a keeper")
	}
	must(t, LetGo(table))
}

// Two that have one socket, as while a daemon hands over to the next, each get the answers to their own batches.
func TestOneSocketOfTwo(t *testing.T) {
	first, err := dial()
	must(t, err)
	defer first.close()
	fd, err := unix.Dup(first.fd)
	must(t, err)
	second := talk{fd}
	defer second.close()
	good := transaction(destroy("lab_two"), newTable("lab_two", ""))
	bad := transaction(add(unix.NFT_MSG_NEWCHAIN).text(unix.NFTA_CHAIN_TABLE, "lab_missing").text(unix.NFTA_CHAIN_NAME, "c").end())
	var both sync.WaitGroup
	for t1, batch := range map[talk][]byte{first: good, second: bad} {
		both.Go(func() {
			o := owner{talk: t1}
			for range 100 {
				if err := o.run(batch); (err != nil) != (t1 == second) || err != nil && !errors.Is(err, unix.ENOENT) {
					t.Errorf("batch of the %s: %v", map[bool]string{true: "second", false: "first"}[t1 == second], err)
					return
				}
			}
		})
	}
	both.Wait()
	must(t, (&owner{talk: first}).run(transaction(destroy("lab_two"))))
}
