//! The `Points` service.

use std::sync::Arc;

use qdrant_client::qdrant::points_server::Points;
use qdrant_client::qdrant::{
    ClearPayloadPoints, CountPoints, CountResponse, CountResult, CreateFieldIndexCollection,
    CreateVectorNameRequest, DeleteFieldIndexCollection, DeletePayloadPoints, DeletePointVectors,
    DeletePoints, DeleteVectorNameRequest, DiscoverBatchPoints, DiscoverBatchResponse,
    DiscoverPoints, DiscoverResponse, FacetCounts, FacetResponse, GetPoints, GetResponse,
    PointsOperationResponse, QueryBatchPoints, QueryBatchResponse, QueryGroupsResponse,
    QueryPointGroups, QueryPoints, QueryResponse, RecommendBatchPoints, RecommendBatchResponse,
    RecommendGroupsResponse, RecommendPointGroups, RecommendPoints, RecommendResponse,
    ScrollPoints, ScrollResponse, SearchBatchPoints, SearchBatchResponse, SearchGroupsResponse,
    SearchMatrixOffsetsResponse, SearchMatrixPairsResponse, SearchMatrixPoints, SearchPointGroups,
    SearchPoints, SearchResponse, SetPayloadPoints, UpdateBatchPoints, UpdateBatchResponse,
    UpdatePointVectors, UpdateResult, UpsertPoints,
};
use tonic::{Request, Response, Status};

use super::admission::Call;
use super::message::{Page, Parts, Points as Answered, point_id};
use super::refusal::{self, invalid, unless_sharded, unsupported};
use super::search::{Wanted, consistency};
use super::{Service, open, seconds};
use crate::collection::alter::Action;

type Answer<T> = Result<Response<T>, Status>;

fn updated(call: &Call, result: UpdateResult) -> Answer<PointsOperationResponse> {
    Ok(Response::new(PointsOperationResponse {
        result: Some(result),
        time: seconds(call),
        usage: None,
    }))
}

#[tonic::async_trait]
impl Points for Service {
    async fn upsert(&self, request: Request<UpsertPoints>) -> Answer<PointsOperationResponse> {
        let (call, message) = open(request);
        let result = self.0.upsert(&call, message).await?;
        updated(&call, result)
    }

    async fn delete(&self, request: Request<DeletePoints>) -> Answer<PointsOperationResponse> {
        let (call, message) = open(request);
        let result = self.0.delete_points(&call, message).await?;
        updated(&call, result)
    }

    async fn create_field_index(
        &self,
        request: Request<CreateFieldIndexCollection>,
    ) -> Answer<PointsOperationResponse> {
        let (call, message) = open(request);
        let result = self.0.create_field(&call, message).await?;
        updated(&call, result)
    }

    async fn delete_field_index(
        &self,
        request: Request<DeleteFieldIndexCollection>,
    ) -> Answer<PointsOperationResponse> {
        let (call, message) = open(request);
        let result = self.0.delete_field(&call, message).await?;
        updated(&call, result)
    }

    async fn search(&self, request: Request<SearchPoints>) -> Answer<SearchResponse> {
        let (call, message) = open(request);
        let points = self.0.search(&call, Wanted::from_search(message)?).await?;
        Ok(points.answer(&SearchResponse {
            time: seconds(&call),
            ..SearchResponse::default()
        }))
    }

    async fn search_batch(
        &self,
        request: Request<SearchBatchPoints>,
    ) -> Answer<SearchBatchResponse> {
        let (call, message) = open(request);
        consistency(message.read_consistency)?;
        let batch = batch(
            &message.collection_name,
            message.search_points,
            Wanted::from_search,
        )?;
        let points = self.0.search_batch(&call, batch, message.timeout).await?;
        Ok(points.answer(&SearchBatchResponse {
            time: seconds(&call),
            ..SearchBatchResponse::default()
        }))
    }

    async fn query(&self, request: Request<QueryPoints>) -> Answer<QueryResponse> {
        let (call, message) = open(request);
        let points = self.0.search(&call, Wanted::from_query(message)?).await?;
        Ok(points.answer(&QueryResponse {
            time: seconds(&call),
            ..QueryResponse::default()
        }))
    }

    async fn query_batch(&self, request: Request<QueryBatchPoints>) -> Answer<QueryBatchResponse> {
        let (call, message) = open(request);
        consistency(message.read_consistency)?;
        let batch = batch(
            &message.collection_name,
            message.query_points,
            Wanted::from_query,
        )?;
        let points = self.0.search_batch(&call, batch, message.timeout).await?;
        Ok(points.answer(&QueryBatchResponse {
            time: seconds(&call),
            ..QueryBatchResponse::default()
        }))
    }

    async fn count(&self, request: Request<CountPoints>) -> Answer<CountResponse> {
        let (call, message) = open(request);
        let count = self.0.count(&call, message).await?;
        Ok(Response::new(CountResponse {
            result: Some(CountResult { count }),
            time: seconds(&call),
            usage: None,
        }))
    }

    async fn get(&self, request: Request<GetPoints>) -> Answer<GetResponse> {
        let (call, message) = open(request);
        unless_sharded(&message.shard_key_selector)?;
        consistency(message.read_consistency)?;
        let collection = self.0.find(&message.collection_name)?;
        let most = self.0.limits.results;
        if message.ids.len() > most {
            return Err(refusal::too_many_ids(most));
        }
        let parts = Arc::new(Parts::read(message.with_payload, message.with_vectors)?);
        let ids = message
            .ids
            .into_iter()
            .map(|id| point_id(Some(id)))
            .collect::<Result<Vec<_>, _>>()?;
        let (view, rows) = collection.find(&ids);
        let page = Page {
            view,
            rows: rows.into_iter().map(|row| (row, 0.0)).collect(),
            parts,
        };
        let (points, deadline) = (
            Answered::new(&self.0, &call),
            self.0.deadline(&call, message.timeout),
        );
        let points = self
            .0
            .copy(&collection, deadline, page, points, Parts::got)
            .await?;
        Ok(points.answer(&GetResponse {
            time: seconds(&call),
            ..GetResponse::default()
        }))
    }

    async fn update_vectors(
        &self,
        _: Request<UpdatePointVectors>,
    ) -> Answer<PointsOperationResponse> {
        Err(unsupported("updating vectors; upsert the point"))
    }

    async fn delete_vectors(
        &self,
        _: Request<DeletePointVectors>,
    ) -> Answer<PointsOperationResponse> {
        Err(unsupported("deleting vectors; delete the point"))
    }

    async fn set_payload(
        &self,
        request: Request<SetPayloadPoints>,
    ) -> Answer<PointsOperationResponse> {
        let (call, message) = open(request);
        let result = self.0.set_payload(&call, message, Action::Set).await?;
        updated(&call, result)
    }

    async fn overwrite_payload(
        &self,
        request: Request<SetPayloadPoints>,
    ) -> Answer<PointsOperationResponse> {
        let (call, message) = open(request);
        let result = self
            .0
            .set_payload(&call, message, Action::Overwrite)
            .await?;
        updated(&call, result)
    }

    async fn delete_payload(
        &self,
        request: Request<DeletePayloadPoints>,
    ) -> Answer<PointsOperationResponse> {
        let (call, message) = open(request);
        let result = self.0.delete_payload(&call, message).await?;
        updated(&call, result)
    }

    async fn clear_payload(
        &self,
        request: Request<ClearPayloadPoints>,
    ) -> Answer<PointsOperationResponse> {
        let (call, message) = open(request);
        let result = self.0.clear_payload(&call, message).await?;
        updated(&call, result)
    }

    async fn create_vector_name(
        &self,
        _: Request<CreateVectorNameRequest>,
    ) -> Answer<PointsOperationResponse> {
        Err(unsupported("named vectors"))
    }

    async fn delete_vector_name(
        &self,
        _: Request<DeleteVectorNameRequest>,
    ) -> Answer<PointsOperationResponse> {
        Err(unsupported("named vectors"))
    }

    async fn search_groups(&self, _: Request<SearchPointGroups>) -> Answer<SearchGroupsResponse> {
        Err(unsupported("grouping"))
    }

    async fn scroll(&self, request: Request<ScrollPoints>) -> Answer<ScrollResponse> {
        let (call, message) = open(request);
        self.0.scroll(&call, message).await
    }

    async fn recommend(&self, _: Request<RecommendPoints>) -> Answer<RecommendResponse> {
        Err(unsupported(refusal::RECOMMENDATIONS))
    }

    async fn recommend_batch(
        &self,
        _: Request<RecommendBatchPoints>,
    ) -> Answer<RecommendBatchResponse> {
        Err(unsupported(refusal::RECOMMENDATIONS))
    }

    async fn recommend_groups(
        &self,
        _: Request<RecommendPointGroups>,
    ) -> Answer<RecommendGroupsResponse> {
        Err(unsupported(refusal::RECOMMENDATIONS))
    }

    async fn discover(&self, _: Request<DiscoverPoints>) -> Answer<DiscoverResponse> {
        Err(unsupported(refusal::DISCOVERIES))
    }

    async fn discover_batch(
        &self,
        _: Request<DiscoverBatchPoints>,
    ) -> Answer<DiscoverBatchResponse> {
        Err(unsupported(refusal::DISCOVERIES))
    }

    async fn update_batch(&self, _: Request<UpdateBatchPoints>) -> Answer<UpdateBatchResponse> {
        Err(unsupported(refusal::UPDATE_BATCHES))
    }

    async fn query_groups(&self, _: Request<QueryPointGroups>) -> Answer<QueryGroupsResponse> {
        Err(unsupported("grouping"))
    }

    async fn facet(&self, _: Request<FacetCounts>) -> Answer<FacetResponse> {
        Err(unsupported("facets"))
    }

    async fn search_matrix_pairs(
        &self,
        _: Request<SearchMatrixPoints>,
    ) -> Answer<SearchMatrixPairsResponse> {
        Err(unsupported("distance matrices"))
    }

    async fn search_matrix_offsets(
        &self,
        _: Request<SearchMatrixPoints>,
    ) -> Answer<SearchMatrixOffsetsResponse> {
        Err(unsupported("distance matrices"))
    }
}

/// The queries of a batch are of the collection that the batch names; they need not name it again.
fn batch<T>(
    name: &str,
    messages: Vec<T>,
    read: fn(T) -> Result<Wanted, Status>,
) -> Result<Vec<Wanted>, Status> {
    let one = |message| {
        let mut wanted = read(message)?;
        if wanted.collection().is_empty() {
            wanted.set_collection(name);
        } else if wanted.collection() != name {
            return Err(invalid(
                "a query of a batch names another collection than the batch",
            ));
        }
        Ok(wanted)
    };
    messages.into_iter().map(one).collect()
}
