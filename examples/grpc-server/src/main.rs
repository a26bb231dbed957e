//! Serves made-up tables until Ctrl-C.

use clap::Parser;
use grpc_server::{Service, made_up};

/// The smallest gRPC server on chiplet.
///
/// Ask it with any gRPC client, for example:
/// grpcurl -plaintext -import-path proto -proto search.proto -d '{"table": "table-0", "vector": [0, 0, ...]}'
/// 127.0.0.1:50051 search.Search/Search
#[derive(Parser)]
struct Arguments {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:50051")]
    listen: String,
    /// Tables, named table-0, table-1, ..
    #[arg(long, default_value_t = 4)]
    tables: u32,
    /// Rows of each.
    #[arg(long, default_value_t = 10_000)]
    rows: usize,
    /// Components of a row.
    #[arg(long, default_value_t = 64)]
    dims: usize,
    /// Cores that are left to the network.
    #[arg(long, default_value_t = 1)]
    reserve: usize,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut service = Service::start(arguments.reserve)?;
    for table in 0..arguments.tables {
        eprintln!("building table-{table} of {} rows", arguments.rows);
        service.add(
            &format!("table-{table}"),
            made_up(arguments.rows, arguments.dims, table + 1)?,
        );
    }
    // The searches have threads of their own: the runtime only moves bytes.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(arguments.reserve.max(1))
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(&arguments.listen).await?;
        eprintln!("serving on {}; Ctrl-C stops", listener.local_addr()?);
        let stop = async {
            // Without a handler Ctrl-C ends the process, which is right too.
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        Ok(service.serve(listener, stop).await?)
    })
}
