//! Turnstile core.
#![no_std]
#![forbid(unsafe_code)]
pub mod uapi;
