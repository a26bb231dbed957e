//! The `Collections` service.

use qdrant_client::qdrant::collections_server::Collections;
use qdrant_client::qdrant::{
    ChangeAliases, CollectionClusterInfoRequest, CollectionClusterInfoResponse,
    CollectionDescription, CollectionExists, CollectionExistsRequest, CollectionExistsResponse,
    CollectionInfo, CollectionOperationResponse, CollectionStatus, CreateCollection,
    CreateShardKeyRequest, CreateShardKeyResponse, DeleteCollection, DeleteShardKeyRequest,
    DeleteShardKeyResponse, FieldType, GetCollectionInfoRequest, GetCollectionInfoResponse,
    ListAliasesRequest, ListAliasesResponse, ListCollectionAliasesRequest, ListCollectionsRequest,
    ListCollectionsResponse, ListShardKeysRequest, ListShardKeysResponse, OptimizerStatus,
    PayloadSchemaInfo, PayloadSchemaType, UpdateCollection, UpdateCollectionClusterSetupRequest,
    UpdateCollectionClusterSetupResponse, UpdateQueueInfo, UpdateStatus,
};
use tonic::{Request, Response, Status};

use super::message::counted;
use super::refusal::{self, unsupported};
use super::{Service, create, open, seconds};
use crate::collection::Collection;
use crate::collection::catalog::CatalogError;
use crate::collection::store::Change;
use crate::collection::writer::Work;

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Collections for Service {
    async fn create(
        &self,
        request: Request<CreateCollection>,
    ) -> Answer<CollectionOperationResponse> {
        let (call, message) = open(request);
        let name = message.collection_name.clone();
        let settings = create::settings(message, &self.0.limits, &self.0.index)?;
        self.blocking(move |api| api.catalog.create(&name, settings))
            .await?
            .map_err(refusal::catalog)?;
        Ok(Response::new(CollectionOperationResponse {
            result: true,
            time: seconds(&call),
        }))
    }

    async fn delete(
        &self,
        request: Request<DeleteCollection>,
    ) -> Answer<CollectionOperationResponse> {
        let (call, message) = open(request);
        let result = self
            .blocking(move |api| api.catalog.delete(&message.collection_name))
            .await?
            .map_err(refusal::catalog)?;
        Ok(Response::new(CollectionOperationResponse {
            result,
            time: seconds(&call),
        }))
    }

    async fn get(
        &self,
        request: Request<GetCollectionInfoRequest>,
    ) -> Answer<GetCollectionInfoResponse> {
        let (call, message) = open(request);
        let collection = self.0.find(&message.collection_name)?;
        let answer = GetCollectionInfoResponse {
            result: Some(describe(&collection)),
            time: seconds(&call),
        };
        counted(&call, &answer)
    }

    async fn list(
        &self,
        request: Request<ListCollectionsRequest>,
    ) -> Answer<ListCollectionsResponse> {
        let (call, _) = open(request);
        let collections = self
            .0
            .catalog
            .list()
            .into_iter()
            .map(|listed| CollectionDescription {
                name: listed.name().to_owned(),
            })
            .collect();
        let answer = ListCollectionsResponse {
            collections,
            time: seconds(&call),
        };
        counted(&call, &answer)
    }

    async fn collection_exists(
        &self,
        request: Request<CollectionExistsRequest>,
    ) -> Answer<CollectionExistsResponse> {
        let (call, message) = open(request);
        let exists = match self.0.catalog.find(&message.collection_name) {
            Ok(_) | Err(CatalogError::Damaged { .. } | CatalogError::Loading(_)) => true,
            Err(CatalogError::Unknown(_)) => false,
            Err(error) => return Err(refusal::catalog(error)),
        };
        Ok(Response::new(CollectionExistsResponse {
            result: Some(CollectionExists { exists }),
            time: seconds(&call),
        }))
    }

    async fn update(
        &self,
        request: Request<UpdateCollection>,
    ) -> Answer<CollectionOperationResponse> {
        let (call, message) = open(request);
        let collection = self.0.find(&message.collection_name)?;
        let (full_scan, rebuild) = create::update(&message, &collection.settings(), &self.0.index)?;
        let changes = vec![Change::Thresholds { full_scan, rebuild }];
        let work = Work::Changes(changes);
        let result = self
            .0
            .change(&call, &collection, work, Some(true), message.timeout)
            .await?;
        Ok(Response::new(CollectionOperationResponse {
            result: result.status == UpdateStatus::Completed as i32,
            time: seconds(&call),
        }))
    }

    async fn update_aliases(
        &self,
        _: Request<ChangeAliases>,
    ) -> Answer<CollectionOperationResponse> {
        Err(unsupported("aliases"))
    }

    async fn list_collection_aliases(
        &self,
        _: Request<ListCollectionAliasesRequest>,
    ) -> Answer<ListAliasesResponse> {
        Err(unsupported("aliases"))
    }

    async fn list_aliases(&self, _: Request<ListAliasesRequest>) -> Answer<ListAliasesResponse> {
        Err(unsupported("aliases"))
    }

    async fn collection_cluster_info(
        &self,
        _: Request<CollectionClusterInfoRequest>,
    ) -> Answer<CollectionClusterInfoResponse> {
        Err(unsupported("clusters"))
    }

    async fn update_collection_cluster_setup(
        &self,
        _: Request<UpdateCollectionClusterSetupRequest>,
    ) -> Answer<UpdateCollectionClusterSetupResponse> {
        Err(unsupported("clusters"))
    }

    async fn create_shard_key(
        &self,
        _: Request<CreateShardKeyRequest>,
    ) -> Answer<CreateShardKeyResponse> {
        Err(unsupported("shard keys"))
    }

    async fn delete_shard_key(
        &self,
        _: Request<DeleteShardKeyRequest>,
    ) -> Answer<DeleteShardKeyResponse> {
        Err(unsupported("shard keys"))
    }

    async fn list_shard_keys(
        &self,
        _: Request<ListShardKeysRequest>,
    ) -> Answer<ListShardKeysResponse> {
        Err(unsupported("shard keys"))
    }
}

fn describe(collection: &Collection) -> CollectionInfo {
    let view = collection.view();
    let settings = collection.settings();
    let problem = collection.build.problem();
    let status = match &problem {
        Some(_) => CollectionStatus::Red,
        None if collection.build.is_taken() => CollectionStatus::Yellow,
        None => CollectionStatus::Green,
    };
    let indexed = match &view.base.index {
        Some(_) => view.base.rows - view.dead_in_base,
        None => 0,
    };
    let payload_schema = settings
        .fields
        .iter()
        .map(|(name, kind)| (name.clone(), schema(*kind)))
        .collect();
    CollectionInfo {
        status: status.into(),
        optimizer_status: Some(OptimizerStatus {
            ok: problem.is_none(),
            error: problem.unwrap_or_default(),
        }),
        // The index and what was written since.
        segments_count: if view.delta.is_empty() { 1 } else { 2 },
        config: Some(create::describe(settings)),
        payload_schema,
        points_count: Some(view.live as u64),
        indexed_vectors_count: Some(indexed as u64),
        update_queue: Some(UpdateQueueInfo {
            length: collection.writes.len() as u64,
            deferred_points: None,
        }),
        ..CollectionInfo::default()
    }
}

/// A declared field. The API has one list of types for declaring and another for showing.
fn schema(kind: i32) -> PayloadSchemaInfo {
    let kind = match FieldType::try_from(kind) {
        Ok(FieldType::Keyword) => PayloadSchemaType::Keyword,
        Ok(FieldType::Integer) => PayloadSchemaType::Integer,
        Ok(FieldType::Float) => PayloadSchemaType::Float,
        Ok(FieldType::Geo) => PayloadSchemaType::Geo,
        Ok(FieldType::Text) => PayloadSchemaType::Text,
        Ok(FieldType::Bool) => PayloadSchemaType::Bool,
        Ok(FieldType::Datetime) => PayloadSchemaType::Datetime,
        Ok(FieldType::Uuid) => PayloadSchemaType::Uuid,
        Err(_) => PayloadSchemaType::UnknownType,
    };
    PayloadSchemaInfo {
        data_type: kind.into(),
        params: None,
        points: None,
    }
}
