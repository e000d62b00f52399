// Package fleet draws small adversarial worlds for tests of the engine: few
// distinct prices and ids so that ties occur, every state and capacity type,
// quantities from one unit to the end of int64, labels that are missing, and
// reservations in every condition. It also shuffles a world, prints it, and
// shrinks one that fails a test to its core.
//
// A world is legal: its machines pass model.Machine.Validate, its profiles are
// canonical, and a cluster that has rows has reported. Everything is drawn
// from the seed; the same seed and size give the same world.
package fleet
