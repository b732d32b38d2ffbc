//! What a store survives: loss of power, kills, faults of the disk, damage, forks, and wrong places.

mod damage;
mod directory;
mod faults;
mod fork;
mod full;
mod holder;
mod image_model;
mod kill;
mod power_cut;
pub(crate) mod process;
mod restart;
mod second;
mod shim;
mod story;
