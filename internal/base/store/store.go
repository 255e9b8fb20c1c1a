// SPDX-License-Identifier: Apache-2.0

// Package store keeps what changes while the router runs and must outlive it: one file, with a bucket of values for
// each part of the router. A change is on disk, or in memory where the file lies there, when the call returns, whole or not at all.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	storeerrors "go.etcd.io/bbolt/errors"
)

// Store is an open file. It is safe for concurrent use.
type Store struct {
	db   *bbolt.DB
	path string
}

// together is how long a change waits for others, to be written with them.
const together = 2 * time.Millisecond

// patience is how long another process may have the file open.
const patience = 5 * time.Second

// Open opens a file, or makes it, for its owner alone. A file that can't be read is put aside, under the name of the second return
// value, and a new one is begun: a router that runs without old sessions is better than one that does not run.
func Open(path string) (s *Store, aside string, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, "", err
	}
	open := func() (*bbolt.DB, error) {
		return bbolt.Open(path, 0o600, &bbolt.Options{Timeout: patience})
	}
	db, err := open()
	if errors.Is(err, storeerrors.ErrInvalid) || errors.Is(err, storeerrors.ErrChecksum) || errors.Is(err, storeerrors.ErrVersionMismatch) {
		aside = path + ".damaged"
		if err := os.Rename(path, aside); err != nil {
			return nil, "", fmt.Errorf("store %s is damaged: %w", path, err)
		}
		db, err = open()
	}
	if err != nil {
		return nil, aside, fmt.Errorf("open store %s: %w", path, err)
	}
	db.MaxBatchDelay = together
	return &Store{db: db, path: path}, aside, nil
}

// Close ends the use of the file.
func (s *Store) Close() error { return s.db.Close() }

// Change is one value to be put, or with Value nil to be deleted.
type Change struct {
	Bucket, Key string
	Value       any // encoded as JSON
}

// Write makes changes, all or none. Those of several goroutines at the same time share one write to disk.
func (s *Store) Write(changes ...Change) error {
	encoded := make([][]byte, len(changes))
	for i, c := range changes {
		if c.Value == nil {
			continue
		}
		var err error
		if encoded[i], err = json.Marshal(c.Value); err != nil {
			return fmt.Errorf("store %s: %w", c.Bucket, err)
		}
	}
	err := s.db.Batch(func(tx *bbolt.Tx) error {
		for i, c := range changes {
			b, err := tx.CreateBucketIfNotExists([]byte(c.Bucket))
			if err != nil {
				return err
			}
			if encoded[i] == nil {
				err = b.Delete([]byte(c.Key))
			} else {
				err = b.Put([]byte(c.Key), encoded[i])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write to store %s: %w", s.path, err)
	}
	return nil
}

// Each calls visit with each value of a bucket, in the order of keys. A value that can't be decoded ends it.
func Each[V any](s *Store, bucket string, visit func(key string, v V)) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucket))
		if b == nil {
			return nil
		}
		return b.ForEach(func(key, text []byte) error {
			var v V
			if err := json.Unmarshal(text, &v); err != nil {
				return fmt.Errorf("store %s, %s %s: %w", s.path, bucket, key, err)
			}
			visit(string(key), v)
			return nil
		})
	})
}
