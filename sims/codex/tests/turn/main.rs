//! Turns of the real app-server: our client alone, and our client through our broker. The model is
//! scripted.

mod broker;
mod direct;
mod peer;
