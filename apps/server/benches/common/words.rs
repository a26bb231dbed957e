//! Collections of word vectors.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use chiplet_bench::workload::dataset::VectorSet;
use qdrant_client::qdrant::collections_client::CollectionsClient;
use qdrant_client::qdrant::points_client::PointsClient;
use qdrant_client::qdrant::vectors_config::Config;
use qdrant_client::qdrant::{
    CreateCollection, Distance, GetCollectionInfoRequest, PointId, PointStruct, UpsertPoints,
    VectorParams, VectorsConfig,
};
use tonic::transport::Channel;

/// Makes a collection of `rows` of the words, `batch` points at a time; returns when it is stored.
pub(crate) async fn fill(
    channel: &Channel,
    name: &str,
    words: &VectorSet,
    rows: usize,
    batch: usize,
) -> anyhow::Result<()> {
    let create = CreateCollection {
        collection_name: name.to_owned(),
        vectors_config: Some(VectorsConfig {
            config: Some(Config::Params(VectorParams {
                size: words.dim() as u64,
                distance: Distance::Cosine.into(),
                ..VectorParams::default()
            })),
        }),
        ..CreateCollection::default()
    };
    CollectionsClient::new(channel.clone())
        .create(create)
        .await?;
    let mut points_client = PointsClient::new(channel.clone());
    for first in (0..rows).step_by(batch) {
        let points = (first..rows.min(first + batch)).map(|row| PointStruct {
            id: Some(PointId::from(row as u64)),
            vectors: Some(words.row(row % words.len()).to_vec().into()),
            ..PointStruct::default()
        });
        let upsert = UpsertPoints {
            collection_name: name.to_owned(),
            wait: Some(true),
            points: points.collect(),
            ..UpsertPoints::default()
        };
        points_client.upsert(upsert).await?;
    }
    Ok(())
}

/// Waits until a collection's index is built over `least` points or more.
pub(crate) async fn wait_for_index(
    channel: &Channel,
    name: &str,
    least: u64,
) -> anyhow::Result<()> {
    let mut collections = CollectionsClient::new(channel.clone());
    let give_up = Instant::now() + Duration::from_secs(300);
    while Instant::now() < give_up {
        let ask = GetCollectionInfoRequest {
            collection_name: name.to_owned(),
        };
        let info = collections.get(ask).await?;
        let info = info.into_inner().result.context("there is no answer")?;
        // 1 is green.
        if info.status == 1 && info.indexed_vectors_count >= Some(least) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("{name} had no index over {least} points within five minutes")
}
