//! A vector-search server on chiplet: how a service links the library, on tonic and tokio, compatible with a subset of
//! the Qdrant gRPC API.
//!
//! | part | what |
//! |---|---|
//! | `config` | settings from a TOML file and the environment |
//! | `server` | starting, being ready, stopping |
//! | `net`, `tls` | connections, and their encryption |
//! | `authentication`, `gate` | who has shown the key, and how little the others may do |
//! | `api` | the gRPC services |
//! | `collection` | points in memory and on disk, and their indexes |
//! | `scheduling` | who runs the searches: chiplet's executor, or a plain pool to compare it with |
//! | `memory` | how much points and indexes may take |
//! | `sample` | the word vectors of `--sample` |
//! | `admin` | health, metrics, a page for people |
//! | `telemetry` | logs and spans |
//!
//! A request goes `net` -> `api` -> `scheduling` -> `collection::table` on a worker of the table's home, and back.
//!
//! ```no_run
//! use chiplet_server::config::Settings;
//! use chiplet_server::server::Server;
//!
//! let server = Server::start(&Settings::default())?;
//! println!("gRPC on {}, admin page on {}", server.grpc_addr(), server.admin_addr());
//! // until somebody wants it to stop
//! server.shutdown();
//! # Ok::<(), anyhow::Error>(())
//! ```

mod admin;
mod api;
mod authentication;
mod collection;
pub mod config;
mod exposure;
mod files;
mod gate;
mod memory;
mod net;
mod private;
mod sample;
mod scheduling;
pub mod server;
pub mod telemetry;
mod tls;
