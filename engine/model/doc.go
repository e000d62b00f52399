// Package model is the vocabulary of the engine: machines and their states,
// needs and their profiles, penalty buckets, resource vectors and quantities.
// Everything here is a value without behaviour in time; the tables that hold
// 500,000 machines are in the packages supply and demand.
package model
