//! What the suites share: recorders, image builders, victims that are killed, and judges outside of the store.
