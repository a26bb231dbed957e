//! What the page promises, for full, hostile and sparse reports.

use super::html::page;
use super::*;
use chiplet_bench::charts::number::{count, fixed, percent, quantity, ratio, spread};

/// The body, which must be well-formed XML, and with it each drawing.
fn body(page: &str) -> roxmltree::Document<'_> {
    let start = page.find("<body").expect("a body");
    let end = page.find("</html>").expect("an end");
    roxmltree::Document::parse(&page[start..end])
        .unwrap_or_else(|error| panic!("not well-formed: {error}\n{page}"))
}

fn texts<'a>(document: &'a roxmltree::Document<'_>) -> Vec<&'a str> {
    document
        .descendants()
        .filter_map(|node| node.text())
        .collect()
}

/// Every promise that holds for any report at all.
fn check(report: &Report) -> String {
    let page = page(report);
    let document = body(&page);
    for word in page.split(|char: char| !char.is_alphanumeric()) {
        assert!(
            !matches!(word, "NaN" | "inf" | "infinity"),
            "{word} in the page"
        );
    }
    assert!(!page.contains("http"), "a reference to something outside");
    assert_eq!(
        page.matches("<script").count(),
        1,
        "data, and nothing that runs"
    );
    let data = super::file::data_in(&page).expect("the report's data");
    serde_json::from_str::<serde_json::Value>(data).expect("the data is JSON");
    assert!(
        !page.contains("@import") && !page.contains("url("),
        "a style from outside"
    );
    for node in document.descendants().filter(|node| node.is_element()) {
        for attribute in [
            "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "width", "height",
        ] {
            if let Some(value) = node.attribute(attribute) {
                let number: f64 = value
                    .parse()
                    .unwrap_or_else(|_| panic!("{attribute}={value}"));
                assert!(number.is_finite());
                assert!(
                    number >= 0.0 || !matches!(attribute, "width" | "height" | "r"),
                    "{attribute}={value}"
                );
            }
        }
        match node.tag_name().name() {
            "svg" if node.attribute("aria-hidden").is_none() => {
                assert_eq!(node.attribute("role"), Some("img"));
                assert!(!node.attribute("aria-label").unwrap_or_default().is_empty());
                assert!(node.children().any(|child| child.has_tag_name("desc")));
            }
            "th" => assert!(node.has_attribute("scope")),
            "a" | "img" | "link" | "iframe" | "object" => {
                panic!("<{}> refers outside", node.tag_name().name())
            }
            _ => {}
        }
    }
    page
}

fn charts(page: &str) -> usize {
    page.matches("role=\"img\"").count() / 2
}

#[test]
fn a_full_report_has_every_chart_each_name_and_each_figure() {
    for strategies in [2, 3, 7, 12] {
        let report = fixture::report(strategies);
        let page = check(&report);
        // With the placebo there are two that differ in one thing.
        let parts = usize::from(strategies > 2);
        assert_eq!(charts(&page), 6 + parts, "{strategies} strategies");
        let document = body(&page);
        let texts = texts(&document);
        for strategy in &report.strategies {
            let figures = [
                strategy.name.clone(),
                quantity(strategy.throughput_qps),
                quantity(strategy.latency_us.p50),
                quantity(strategy.latency_us.p99),
                quantity(strategy.latency_us.p999),
                quantity(strategy.worst_table.latency_us.p99),
                quantity(strategy.goodput_qps.unwrap()),
                fixed(strategy.recall_at_10, 4),
                fixed(strategy.fairness_jain, 3),
                fixed(strategy.cpu_cores, 2),
                count(strategy.refused),
                format!(
                    "{} ({})",
                    ratio(strategy.ratio_to_first.throughput),
                    spread(strategy.ratio_spread.throughput)
                ),
            ];
            for figure in figures {
                assert!(
                    texts.contains(&figure.as_str()),
                    "{figure} is missing for {}",
                    strategy.name
                );
            }
            if let Some(steals) = strategy.steals {
                assert!(texts.contains(&count(steals.own).as_str()));
            }
            if let Some(stalled) = strategy
                .counters
                .and_then(|counters| counters.stalled_share)
            {
                assert!(texts.contains(&percent(stalled).as_str()));
            }
        }
        for text in [
            &report.machine.cpu,
            &report.machine.kernel,
            &report.workload.data,
        ] {
            assert!(texts.contains(&text.as_str()), "{text} is missing");
        }
        assert!(page.contains("Not available here: lines from own L3"));
        let peers_have_none = page.contains("<td class=\"words\">not available here</td>");
        assert_eq!(peers_have_none, strategies > 2);
    }
}

/// Two strategies of which the second is clearly ahead.
fn ahead() -> Report {
    let mut report = fixture::report(2);
    let second = &mut report.strategies[1];
    second.ratio_to_first = Ratios {
        throughput: 1.38,
        p50: 0.8,
        p99: 0.72,
        p999: 0.9,
    };
    second.ratio_spread.throughput = [1.31, 1.445];
    second.ratio_spread.p99 = [0.69, 0.76];
    report
}

/// The text of the page's heading.
fn heading(page: &str) -> String {
    let document = body(page);
    let heading = document
        .descendants()
        .find(|node| node.has_tag_name("h1"))
        .expect("a heading");
    heading
        .descendants()
        .filter(|node| node.is_text())
        .filter_map(|node| node.text())
        .collect()
}

#[test]
fn the_answer_names_the_ratio_and_its_spread() {
    let page = check(&ahead());
    assert_eq!(
        heading(&page),
        "ccd-aware answered 1.38× as many queries as global-steal (1.31 to 1.45 over 7 rounds)"
    );
    assert!(page.contains(
        "ccd-aware had 0.72× the p99 latency of global-steal (0.69 to 0.76 over 7 rounds)."
    ));
}

/// What reads a run, and what each begins and ends with.
#[test]
fn text_page_and_check_give_one_verdict_and_the_same_doubts() {
    let mut report = ahead();
    report.machine.load_average = Some(47.8);
    report.machine.governor = Some("powersave".into());
    report.strategies[1].rounds.truncate(3);
    let (text, page) = (super::text::render(&report), check(&report));
    assert!(
        text.starts_with("ccd-aware answered 1.38× as many queries as global-steal (1.31 to 1.45"),
        "{text}"
    );
    let doubts = super::doubts::of(&report);
    assert!(
        doubts
            .iter()
            .any(|doubt| doubt.contains("load average was 47.80"))
    );
    assert_eq!(doubts.len(), 3, "{doubts:?}");
    let checked = crate::compare::checked("a.html", &report);
    let (_, end) = text.split_once("before you believe it:").expect("an end");
    for doubt in &doubts {
        for (place, of) in [
            ("text", end),
            ("page", page.as_str()),
            ("check", checked.as_str()),
        ] {
            assert!(of.contains(doubt), "no {doubt:?} in the {place}");
        }
    }
    assert!(page.contains("p99 latency, less is better"));
}

#[test]
fn at_a_set_rate_the_answer_is_latency() {
    let mut report = ahead();
    report.workload.rate_qps = Some(20_000.0);
    let expected = "At 20,000 queries/s, ccd-aware had 0.72× the p99 latency of global-steal (0.69 to 0.76 over 7 rounds)";
    assert_eq!(heading(&check(&report)), expected);
}

#[test]
fn rounds_on_both_sides_of_one_are_not_called_a_difference() {
    let mut report = fixture::report(2);
    report.strategies[1].ratio_to_first.throughput = 1.02;
    report.strategies[1].ratio_spread.throughput = [0.97, 1.06];
    let page = check(&report);
    let expected = "ccd-aware showed no clear difference in throughput from global-steal \
                    (1.02×, rounds on both sides of 1: 0.97 to 1.06 over 7 rounds)";
    assert_eq!(heading(&page), expected);
}

#[test]
fn hostile_text_is_only_text() {
    const HOSTILE: &str = "<script>alert('1')</script>\"&amp;\u{0}\u{1b}]]><!--";
    let mut report = fixture::report(3);
    report.strategies[1].name = HOSTILE.into();
    report.strategies[2].name = "\"><img src=x onerror=alert(1)>".into();
    report.strategies[1].worst_table.name = HOSTILE.into();
    for point in report
        .load_curve
        .iter_mut()
        .filter(|point| point.strategy == "ccd-aware")
    {
        point.strategy = HOSTILE.into();
    }
    report.placements[0].strategy = HOSTILE.into();
    report.placements[0].tables[0].name = HOSTILE.into();
    report.notes.push(HOSTILE.into());
    report.command = HOSTILE.into();
    report.date = HOSTILE.into();
    report.machine.cpu = HOSTILE.into();
    report.machine.level = HOSTILE.into();
    report.workload.data = HOSTILE.into();
    report.workload.arrivals = HOSTILE.into();
    let page = check(&report);
    assert!(!page.contains("<img"));
    assert_eq!(page.matches("</style>").count(), 1);
    let document = body(&page);
    let shown = HOSTILE.replace(['\u{0}', '\u{1b}'], "\u{fffd}");
    assert!(
        texts(&document).contains(&shown.as_str()),
        "the name is there to read"
    );
}

#[test]
fn one_strategy_alone_gives_its_figures_and_no_comparison() {
    let report = fixture::report(1);
    let page = check(&report);
    let median = quantity(report.strategies[0].throughput_qps);
    assert!(heading(&page).starts_with(&format!(
        "global-steal answered {median} queries per second ("
    )));
    assert!(page.contains("there is nothing to compare it with"));
    assert_eq!(charts(&page), 5);
}

#[test]
fn several_sizes_and_numbers_of_domains_are_drawn() {
    let mut report = fixture::report(3);
    report.scaling = fixture::scaling(&report.strategies);
    let page = check(&report);
    assert_eq!(charts(&page), 9);
    assert!(page.contains("throughput, ratio to global-steal"));
    assert!(page.contains("throughput, times that of 4 domains"));
    // One point has nothing to be drawn against.
    report.scaling.truncate(1);
    assert_eq!(charts(&check(&report)), 7);
}

#[test]
fn nothing_at_all_still_makes_a_page() {
    let mut report = fixture::report(0);
    report.placements.clear();
    report.notes.clear();
    let page = check(&report);
    assert_eq!(heading(&page), "No strategy was run");
    assert_eq!(charts(&page), 0);
    assert_eq!(
        page.matches("class=\"left-out\"").count(),
        7,
        "each chart says why it is left out"
    );
}

#[test]
fn what_was_not_measured_leaves_its_chart_out_with_a_reason() {
    let mut report = fixture::report(2);
    report.load_curve.clear();
    report.placements.clear();
    report.workload.flip_s = None;
    report.workload.saturation_qps = None;
    report.workload.deadline_us = None;
    report.machine.memory_bytes = None;
    report.machine.load_average = None;
    report.machine.counters = "perf_event_paranoid is 3".into();
    for strategy in &mut report.strategies {
        strategy.steals = None;
        strategy.goodput_qps = None;
        strategy.remaps = None;
        strategy.counters = None;
        strategy.send_lag_p99_us = None;
        for round in &mut strategy.rounds {
            round.p99_us_by_tenth.clear();
        }
    }
    let page = check(&report);
    assert_eq!(charts(&page), 2, "throughput and ratios");
    for reason in [
        "No sweep over several rates was asked for",
        "No strategy of this run places tables",
        "No strategy of this run says from where",
        "Latency by tenth of the round was not recorded",
        "Hardware counters: not available here (perf_event_paranoid is 3)",
    ] {
        assert!(page.contains(reason), "{reason}");
    }
}

#[test]
fn zero_absent_and_infinite_figures_never_reach_the_page_as_such() {
    for value in [
        0.0,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -1.0,
        1e300,
        1e-300,
    ] {
        let latency = Latency {
            p50: value,
            p99: value,
            p999: value,
        };
        let mut report = fixture::report(3);
        for strategy in &mut report.strategies[1..] {
            strategy.throughput_qps = value;
            strategy.latency_us = latency;
            strategy.recall_at_10 = value;
            strategy.ratio_to_first = Ratios {
                throughput: value,
                p50: value,
                p99: value,
                p999: value,
            };
            let range = [value, value];
            strategy.ratio_spread = RatioSpread {
                throughput: range,
                p50: range,
                p99: range,
                p999: range,
            };
            strategy.steals = Some(Steals::default());
            strategy.goodput_qps = Some(value);
            strategy.fairness_jain = value;
            strategy.cpu_cores = value;
            strategy.sender_cores = value;
            strategy.busiest_sender = value;
            strategy.send_lag_p99_us = Some(value);
            strategy.worst_table.latency_us = latency;
            strategy.counters = Some(Counters {
                cycles: Some(value),
                stalled_share: Some(value),
                ..Counters::default()
            });
            for round in &mut strategy.rounds {
                *round = Round {
                    throughput_qps: value,
                    latency_us: latency,
                    p99_us_by_tenth: vec![value; 10],
                };
            }
        }
        for point in &mut report.load_curve {
            (
                point.load,
                point.rate_qps,
                point.throughput_qps,
                point.latency_us,
            ) = (value, value, value, latency);
        }
        let history = &mut report.placements[0];
        history.tables[0].homes[1].at_s = value;
        history.tables[0].share = value;
        history.tables[1].homes.clear();
        let (round_s, flip_s) = (value, Some(value));
        report.workload = Workload {
            round_s,
            flip_s,
            rate_qps: Some(value),
            ..report.workload
        };
        report.workload.saturation_qps = Some(value);
        report.generator.limit_qps = value;
        report.generator.headroom = value;
        check(&report);
        report
            .strategies
            .iter_mut()
            .for_each(|strategy| strategy.rounds.clear());
        report.placements[0].length_s = value;
        check(&report);
        report.strategies.remove(0);
        check(&report);
    }
}

#[test]
fn the_picture_is_a_drawing_of_its_own_with_every_name_and_where_it_ran() {
    let mut report = fixture::report(3);
    report.load_curve[0].throughput_qps = 0.9 * report.load_curve[0].rate_qps;
    let picture = super::chart::load_curve::picture(&report).unwrap();
    let document = roxmltree::Document::parse(&picture).unwrap();
    assert!(
        document
            .root_element()
            .has_tag_name(("http://www.w3.org/2000/svg", "svg"))
    );
    let texts = texts(&document).join("\n");
    for strategy in &report.strategies {
        assert!(texts.contains(&strategy.name), "{texts}");
    }
    assert!(
        texts.contains("AMD EPYC 9654") && texts.contains("2026-11-21"),
        "{texts}"
    );
    for mark in ["Dotted: ", "Open marks: "] {
        assert!(texts.contains(mark), "{mark} is not explained in {texts}");
    }
    assert!(!picture.contains("url(") && !picture.contains("<script"));
    let none = Report {
        load_curve: Vec::new(),
        ..report
    };
    assert!(super::chart::load_curve::picture(&none).is_err());
}

#[test]
fn the_page_carries_the_report_as_it_is() {
    let mut report = fixture::report(3);
    report.strategies[1].name = "</script><b>&amp; \u{1}".into();
    let page = check(&report);
    let data = super::file::data_in(&page).unwrap();
    let read: Report = serde_json::from_str(data).unwrap();
    assert_eq!(read.strategies[1].name, report.strategies[1].name);
    let value: serde_json::Value = serde_json::from_str(data).unwrap();
    assert!(
        serde_json::to_value(&read).unwrap() == value,
        "a field was lost"
    );
}

#[test]
fn one_domain_needs_no_placement_chart_and_many_domains_fit_one() {
    let mut report = fixture::report(2);
    report.placements = vec![fixture::history("ccd-aware", 1, 4)];
    assert!(check(&report).contains("This machine has one domain at the chosen cache level"));
    report.placements = vec![
        fixture::history("ccd-aware", 64, 40),
        fixture::history("round-robin", 64, 1),
    ];
    assert_eq!(charts(&check(&report)), 7);
}
