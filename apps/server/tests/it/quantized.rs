//! Collections whose index has codes of the vectors: what they answer is exact, as they keep the vectors too.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::common::{self, Running, refusal};
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::{
    BinaryQuantizationBuilder, CompressionRatio, Condition, CreateCollectionBuilder,
    DeletePointsBuilder, Distance, Filter, HnswConfigDiffBuilder, Memory, PointStruct,
    PointsIdsList, ProductQuantizationBuilder, QuantizationSearchParamsBuilder, QueryPointsBuilder,
    ScalarQuantizationBuilder, ScoredPoint, SearchParamsBuilder, TurboQuantBitSize,
    TurboQuantization, TurboQuantizationBuilder, UpdateCollectionBuilder, UpsertPointsBuilder,
    VectorParamsBuilder, quantization_config, quantization_config_diff,
};

const DIM: usize = 16;
const POINTS: u64 = 3_000;
/// Nothing here takes nearly as long.
const BOUND: Duration = Duration::from_secs(300);

/// What a collection should hold.
type Model = BTreeMap<u64, Vec<f32>>;

fn vector(seed: u64) -> Vec<f32> {
    let mut seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..DIM)
        .map(|_| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

/// The score that the API promises, and whether a larger one is nearer.
fn score(distance: Distance, a: &[f32], b: &[f32]) -> f64 {
    let sum = |terms: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter()
            .zip(b)
            .map(|(&a, &b)| terms(a.into(), b.into()))
            .sum()
    };
    match distance {
        Distance::Euclid => sum(&|a, b| (a - b).powi(2)).sqrt(),
        Distance::Dot => sum(&|a, b| a * b),
        _ => sum(&|a, b| a * b) / (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt(),
    }
}

fn id(point: &ScoredPoint) -> u64 {
    match point.id.clone().unwrap().point_id_options {
        Some(PointIdOptions::Num(number)) => number,
        other => panic!("{other:?}"),
    }
}

/// A collection of one index kind, and its model.
struct Coded {
    running: Running,
    distance: Distance,
    model: Model,
}

impl Coded {
    fn start(distance: Distance, create: CreateCollectionBuilder) -> Self {
        let running = Running::with(|settings| {
            // All of them are in the index.
            settings.index.full_scan_kib = POINTS * DIM as u64 * 4 / 1024;
            // What is written afterwards stays outside the index for as long as a test takes.
            settings.index.rebuild_kib = 1 << 20;
        });
        running
            .run(running.client.create_collection(create))
            .unwrap();
        let mut coded = Self {
            running,
            distance,
            model: Model::new(),
        };
        coded.put((0..POINTS).map(|id| (id, vector(id))));
        coded.wait_until_built();
        coded
    }

    fn put(&mut self, points: impl IntoIterator<Item = (u64, Vec<f32>)>) {
        let points: Vec<_> = points.into_iter().collect();
        for chunk in points.chunks(common::BATCH) {
            let sent: Vec<_> = chunk
                .iter()
                .map(|(id, vector)| {
                    PointStruct::new(*id, vector.clone(), [("third", (id % 3 == 0).into())])
                })
                .collect();
            let upsert = UpsertPointsBuilder::new("points", sent).wait(true);
            let client = &self.running.client;
            self.running.run(client.upsert_points(upsert)).unwrap();
        }
        self.model.extend(points);
    }

    fn delete(&mut self, ids: impl IntoIterator<Item = u64>) {
        let ids: Vec<u64> = ids.into_iter().collect();
        ids.iter().for_each(|id| drop(self.model.remove(id)));
        let ids = ids.into_iter().map(Into::into).collect();
        let delete = DeletePointsBuilder::new("points")
            .points(PointsIdsList { ids })
            .wait(true);
        let client = &self.running.client;
        self.running.run(client.delete_points(delete)).unwrap();
    }

    fn indexed(&self) -> u64 {
        let info = self.running.client.collection_info("points");
        let info = self.running.run(info).unwrap();
        info.result.unwrap().indexed_vectors_count()
    }

    fn wait_until_built(&self) {
        let give_up = Instant::now() + BOUND;
        let pending = || self.running.metric("chiplet_server_builds_pending", &[]);
        while self.indexed() == 0 || pending() > 0.0 {
            assert!(Instant::now() < give_up, "it never had an index");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn ask(&self, query: QueryPointsBuilder) -> Vec<ScoredPoint> {
        let found = self.running.run(self.running.client.query(query));
        found.unwrap().result
    }

    /// Looks for points near some: all scores are exact and in order, no point comes twice, and at least `least` of a
    /// thousand that exact search finds are found.
    fn check(&self, least: usize) {
        let larger_is_nearer = self.distance != Distance::Euclid;
        let (mut right, mut all) = (0, 0);
        for seed in 0..40 {
            let near = vector(10_000 + seed);
            let query = QueryPointsBuilder::new("points")
                .query(near.clone())
                .limit(10);
            let exactly = SearchParamsBuilder::default().exact(true);
            let third = Filter::must([Condition::matches("third", true)]);
            let filtered = query.clone().filter(third.clone());
            for (query, every) in [(query, 1), (filtered, 3)] {
                let found = self.ask(query.clone());
                let truth = self.ask(query.clone().params(exactly.clone()));
                assert_eq!((found.len(), truth.len()), (10, 10));
                let mut ids: Vec<u64> = found.iter().map(id).collect();
                for point in &found {
                    let vector = self.model.get(&id(point)).expect("it was deleted");
                    let exact = score(self.distance, &near, vector);
                    let got = f64::from(point.score);
                    assert!((got - exact).abs() < 1e-5, "{got} is {exact}");
                    assert_eq!(id(point) % every, 0);
                }
                let scores = found.iter().map(|point| point.score);
                assert!(scores.is_sorted_by(|a, b| match larger_is_nearer {
                    true => a >= b,
                    false => a <= b,
                }));
                let is_found = |point: &&ScoredPoint| ids.contains(&id(point));
                right += truth.iter().filter(is_found).count();
                all += truth.len();
                ids.sort_unstable();
                ids.dedup();
                assert_eq!(ids.len(), 10);
                // Just beyond the fourth of those that are found: by its code some would be on the other side.
                let step = if larger_is_nearer { -1e-4 } else { 1e-4 };
                let near = self.ask(query.score_threshold(found[3].score + step));
                let beyond = found[4..]
                    .iter()
                    .take_while(|point| (point.score - found[3].score).abs() < 1e-4);
                assert_eq!(near, found[..4 + beyond.count()]);
            }
        }
        assert!(right * 1_000 >= all * least, "{right} of {all}");
    }

    fn quantization(&self) -> Option<quantization_config::Quantization> {
        let info = self.running.client.collection_info("points");
        let info = self.running.run(info).unwrap().result.unwrap();
        info.config.unwrap().quantization_config?.quantization
    }

    /// As [`Coded::check`], before and after points are overwritten, deleted and added, and after a restart.
    fn check_all_along(mut self, least: usize) {
        self.check(least);
        let indexed = self.indexed();
        // Points that searches have found in the index: they move, go, or stay where others go.
        let near = |seed: u64| vector(10_000 + seed);
        for seed in 0..20 {
            let found = self.ask(
                QueryPointsBuilder::new("points")
                    .query(near(seed))
                    .limit(12),
            );
            let ids: Vec<u64> = found.iter().map(id).collect();
            self.delete(ids[..4].iter().copied());
            let moved = ids[4..8].iter().map(|&id| (id, vector(50_000 + id)));
            self.put(moved.collect::<Vec<_>>());
        }
        self.put((POINTS..POINTS + 100).map(|id| (id, vector(id))));
        assert!(self.indexed() < indexed, "they are of the index");
        assert!(self.indexed() > indexed / 2, "which is still the old one");
        self.check(least);
        let table = self
            .running
            .data
            .path()
            .join("chiplet-indexes/points.table");
        let made = || Some(std::fs::metadata(&table).ok()?.modified().unwrap());
        let before = made();
        self.running = self.running.again(|| ());
        self.wait_until_built();
        assert_eq!(made(), before, "it was loaded");
        self.check(least);
    }
}

fn lists(distance: Distance, code: &str) -> CreateCollectionBuilder {
    let params = VectorParamsBuilder::new(DIM as u64, distance);
    let metadata: HashMap<String, serde_json::Value> = HashMap::from([
        ("chiplet.index".to_owned(), "ivf".into()),
        ("chiplet.nlist".to_owned(), 20.into()),
        // All of them: what is not found is lost by codes.
        ("chiplet.nprobe".to_owned(), 20.into()),
        ("chiplet.code".to_owned(), code.into()),
    ]);
    CreateCollectionBuilder::new("points")
        .vectors_config(params)
        .metadata(metadata)
}

fn graph(
    distance: Distance,
    quantization: impl Into<quantization_config::Quantization>,
) -> CreateCollectionBuilder {
    let params = VectorParamsBuilder::new(DIM as u64, distance);
    CreateCollectionBuilder::new("points")
        .vectors_config(params)
        .quantization_config(quantization.into())
}

fn four_bits() -> TurboQuantization {
    TurboQuantizationBuilder::new()
        .bits(TurboQuantBitSize::Bits4)
        .build()
}

const DISTANCES: [Distance; 3] = [Distance::Euclid, Distance::Cosine, Distance::Dot];

#[cfg(feature = "ivf")]
#[test]
fn scores_of_lists_of_8_bits_are_exact() {
    for distance in DISTANCES {
        Coded::start(distance, lists(distance, "SQ8")).check_all_along(1_000);
    }
}

#[cfg(feature = "ivf")]
#[test]
fn scores_of_lists_of_4_bits_are_exact() {
    Coded::start(Distance::Cosine, lists(Distance::Cosine, "SQ4")).check_all_along(990);
}

#[cfg(feature = "ivf")]
#[test]
fn scores_of_product_quantizers_are_exact() {
    for (distance, code) in [(Distance::Euclid, "PQ4"), (Distance::Dot, "PQ8x4fs")] {
        Coded::start(distance, lists(distance, code)).check_all_along(800);
    }
}

#[test]
fn scores_of_graphs_of_8_bits_are_exact() {
    let scalar = ScalarQuantizationBuilder::default().quantile(0.99).build();
    for distance in DISTANCES {
        let coded = Coded::start(distance, graph(distance, scalar));
        assert_eq!(coded.quantization(), Some(scalar.into()));
        coded.check_all_along(990);
    }
}

#[test]
fn scores_of_graphs_of_4_bits_are_exact() {
    for distance in DISTANCES {
        let coded = Coded::start(distance, graph(distance, four_bits()));
        assert_eq!(coded.quantization(), Some(four_bits().into()));
        coded.check_all_along(980);
    }
}

/// The graph has codes, and not the vectors a second time.
#[test]
fn a_graph_of_codes_takes_less_memory() {
    let index_bytes = |create: CreateCollectionBuilder| {
        let coded = Coded::start(Distance::Dot, create);
        let folder = coded.running.data.path().join("chiplet-indexes");
        std::fs::metadata(folder.join("points.table"))
            .unwrap()
            .len()
    };
    let plain = CreateCollectionBuilder::new("points")
        .vectors_config(VectorParamsBuilder::new(DIM as u64, Distance::Dot));
    let plain = index_bytes(plain);
    let scalar = ScalarQuantizationBuilder::default().build();
    for (create, bytes) in [
        (graph(Distance::Dot, scalar), 16),
        (graph(Distance::Dot, four_bits()), 32),
    ] {
        let saved = (64 - bytes) * POINTS;
        assert!(index_bytes(create) + saved * 9 / 10 < plain);
    }
}

/// A vector's own setting goes before the collection's; lists have the code that it asks for.
#[cfg(feature = "ivf")]
#[test]
fn lists_have_the_codes_that_a_setting_asks_for() {
    let params = VectorParamsBuilder::new(DIM as u64, Distance::Dot)
        .quantization_config(ScalarQuantizationBuilder::default());
    let metadata = HashMap::from([("chiplet.index".to_owned(), serde_json::json!("ivf"))]);
    let create = CreateCollectionBuilder::new("points")
        .vectors_config(params)
        .quantization_config(four_bits())
        .metadata(metadata);
    let coded = Coded::start(Distance::Dot, create);
    let scalar = ScalarQuantizationBuilder::default().build();
    assert_eq!(coded.quantization(), Some(scalar.into()));
    let table = coded
        .running
        .data
        .path()
        .join("chiplet-indexes/points.table");
    // Lists of 4 bits have no file.
    assert!(table.exists());
    let agreed = lists(Distance::Dot, "SQ8").quantization_config(scalar);
    let create = coded.running.client.delete_collection("points");
    coded.running.run(create).unwrap();
    let create = coded.running.client.create_collection(agreed);
    coded.running.run(create).unwrap();
}

#[test]
fn what_a_search_says_of_codes_is_what_is_done_or_refused() {
    let coded = Coded::start(Distance::Dot, graph(Distance::Dot, four_bits()));
    let plain = VectorParamsBuilder::new(DIM as u64, Distance::Dot);
    let plain = CreateCollectionBuilder::new("plain").vectors_config(plain);
    let client = &coded.running.client;
    coded.running.run(client.create_collection(plain)).unwrap();
    let ask = |name: &str, exact: bool, quantization: QuantizationSearchParamsBuilder| {
        let params = SearchParamsBuilder::default()
            .exact(exact)
            .quantization(quantization);
        let query = QueryPointsBuilder::new(name)
            .query(vector(10_000))
            .limit(10)
            .params(params);
        coded.running.run(client.query(query))
    };
    let said = QuantizationSearchParamsBuilder::default;
    let usual = QueryPointsBuilder::new("points").query(vector(10_000));
    let usual = coded.ask(usual);
    for done in [
        said(),
        said().ignore(false).rescore(true),
        said().oversampling(1.0),
        said().oversampling(3.1),
    ] {
        assert_eq!(ask("points", false, done).unwrap().result, usual);
    }
    for (not_done, word) in [
        (said().ignore(true), "ignore"),
        (said().rescore(false), "rescore"),
        (said().oversampling(3.2), "31 points"),
    ] {
        // Without an index that has codes there is nothing to refuse.
        ask("points", true, not_done.clone()).unwrap();
        ask("plain", false, not_done.clone()).unwrap();
        let (code, message) = refusal(ask("points", false, not_done));
        assert_eq!(code, tonic::Code::Unimplemented, "{message}");
        assert!(message.contains(word), "{message}");
    }
    for wrong in [0.5, f64::NAN, -1.0] {
        let (code, message) = refusal(ask("plain", false, said().oversampling(wrong)));
        assert_eq!(code, tonic::Code::InvalidArgument, "{message}");
    }
}

#[test]
fn other_quantisation_is_refused_with_what_to_use() {
    let running = Running::start();
    let turbo = |bits| TurboQuantizationBuilder::new().bits(bits).build().into();
    let scalar = ScalarQuantizationBuilder::default();
    let product = ProductQuantizationBuilder::new(CompressionRatio::X16 as i32);
    let refused: [(quantization_config::Quantization, &str); 7] = [
        (product.build().into(), "PQ<parts>"),
        (
            BinaryQuantizationBuilder::new(true).build().into(),
            "4 bits",
        ),
        (turbo(TurboQuantBitSize::Bits1), "use 4 bits"),
        (turbo(TurboQuantBitSize::Bits15), "use 4 bits"),
        (turbo(TurboQuantBitSize::Bits2), "use 4 bits"),
        (turbo(TurboQuantBitSize::Bits8), "scalar int8"),
        (
            scalar.clone().memory(Memory::Cold).build().into(),
            "on disk",
        ),
    ];
    let create = |create: CreateCollectionBuilder| {
        refusal(running.run(running.client.create_collection(create)))
    };
    for (quantization, words) in refused {
        let (code, message) = create(graph(Distance::Dot, quantization));
        assert_eq!(code, tonic::Code::Unimplemented, "{message}");
        assert!(message.contains(words), "{message}");
    }
    let int8 = || graph(Distance::Dot, scalar.clone().build());
    let exact = HnswConfigDiffBuilder::default().m(0);
    let quantile = scalar.clone().quantile(0.3).build();
    for (wrong, words) in [
        (int8().hnsw_config(exact), "no index"),
        (graph(Distance::Dot, quantile), "0.5 to 1"),
    ] {
        let (code, message) = create(wrong);
        assert_eq!(code, tonic::Code::InvalidArgument, "{message}");
        assert!(message.contains(words), "{message}");
    }
    if cfg!(feature = "ivf") {
        for code in ["Flat", "SQ4", "PQ4"] {
            let contradiction =
                lists(Distance::Dot, code).quantization_config(scalar.clone().build());
            let (code, message) = create(contradiction);
            assert_eq!(code, tonic::Code::InvalidArgument, "{message}");
            assert!(message.contains("leave one of them out"), "{message}");
        }
    }
    running
        .run(running.client.create_collection(int8()))
        .unwrap();
    let update = UpdateCollectionBuilder::new("points").quantization_config(
        quantization_config_diff::Quantization::Scalar(scalar.build()),
    );
    let (code, _) = refusal(running.run(running.client.update_collection(update)));
    assert_eq!(code, tonic::Code::Unimplemented);
}
