//! `Qdrant/HealthCheck`, by which clients find out what they are talking to.

use qdrant_client::qdrant::qdrant_server::Qdrant;
use qdrant_client::qdrant::{HealthCheckReply, HealthCheckRequest};
use tonic::{Request, Response, Status};

use super::Service;

/// The version of the API that is spoken, which clients compare with their own.
pub(crate) const API_VERSION: &str = "1.20.0";

#[tonic::async_trait]
impl Qdrant for Service {
    async fn health_check(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckReply>, Status> {
        Ok(Response::new(HealthCheckReply {
            title: concat!(
                "chiplet-server ",
                env!("CARGO_PKG_VERSION"),
                ", compatible with a subset of the Qdrant gRPC API"
            )
            .to_owned(),
            version: API_VERSION.to_owned(),
            commit: None,
        }))
    }
}
