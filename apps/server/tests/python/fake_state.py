"""Made-up answers of `GET /api/state`, of the shape that the server gives.

Everything is a plain function of its arguments, so that a test can say what it expects to see.
"""

RUNS_SCRIPT = '<img src=x onerror="window.ran=1"><script>window.ran=1</script>'
LONG = "long_" + "n" * 195
RIGHT_TO_LEFT = "شعارات-المنتجات"
# Turns the direction of what follows, if nothing isolates it.
OVERRIDE = "\u202egnos\u202d-catalogue"
QUOTES = "\"quoted\" 'name' & </li></template>"
HOSTILE = [RUNS_SCRIPT, LONG, RIGHT_TO_LEFT, OVERRIDE, QUOTES]

WORDS = ["songs", "articles", "products", "faces", "tickets", "patents", "recipes", "reviews", "places", "papers", "lyrics", "logs"]


def steals(own=0, domain=0, remote=0, rebalanced=0, overflow=0):
    return {"own": own, "domain": domain, "remote": remote, "rebalanced": rebalanced, "overflow": overflow}


def name(number):
    word = WORDS[number % len(WORDS)]
    return word if number < len(WORDS) else f"{word}-{number // len(WORDS) + 1}"


def table(number, homes, megabytes, **other):
    """Table `number`, at home in `homes`: {domain: weight}."""
    return {
        "id": number,
        "name": name(number),
        "index": ["hnsw", "ivf_flat"][number % 2],
        "status": "green",
        "points": 40_000 + 7_919 * (number % 60),
        "traffic_bytes_per_second": megabytes * 1e6,
        "homes": [{"domain": domain, "weight": weight} for domain, weight in homes.items()],
        "memory": [{"node": domain // 4, "bytes": 9_000_000 * (number + 1)} for domain in list(homes)[:1]],
        "huge_page_bytes": (number % 2) * (8 << 20),
        "queued": number % 5,
        "done_per_second": megabytes * 3.6,
        "shed": 0,
        "wait_p99_us": 30.0 + number if megabytes else None,
        "service_p50_us": 90.0 + 3 * number if megabytes else None,
        "service_p99_us": 300.0 + 11 * number if megabytes else None,
    } | other


def damaged(number, **other):
    problem = "graph.bin: checksum is 9f1c22d0, expected 41aa07e3; the file was cut short at byte 1,048,576"
    return table(number, {}, 0, id=None, index="none", status="red", points=0, problem=problem) | other


def domain(number, workers=8, **other):
    busy = (number * 3 + 3) % (workers + 1)
    return {
        "id": number,
        "cpus": f"{number * workers}-{(number + 1) * workers - 1}",
        "cache_bytes": 32 << 20,
        "cache_level": "L3",
        "workers": workers,
        "busy_workers": busy,
        "busy_share": round(busy / workers * 0.9 + 0.03, 3),
        "queued": 12 * number + 4,
        "queue_limit": 2048,
        "shed": 0,
        "done_per_second": 1234.5 + 411 * number,
        "wait_p50_us": 3.1 + number,
        "wait_p99_us": 80.0 + 17 * number,
        "service_p50_us": 90.0,
        "service_p99_us": 300.0 + 140 * number,
        "steals": steals(9000, 800, 40 * number),
    } | other


def remap(version, moves, reason="trend: the busiest domain was 36 % above the mean, now 6 %"):
    moved = [{"table": moved, "from": f"domain {source}", "to": f"domain {target}"} for moved, source, target in moves]
    return {"at_unix_ms": 1_790_000_000_000 + version * 61_000, "version": version, "reason": reason, "moves": moved}


def state(domains, tables, remaps=(), **server):
    cores = sum(domain["workers"] for domain in domains)
    done = sum(table["done_per_second"] for table in tables)
    return {
        "server": {
            "name": "chiplet-server",
            "version": "0.1.0",
            "uptime_seconds": 11_523.4,
            "ready": True,
            "draining": False,
            "not_ready_because": "",
            "grpc_addr": "127.0.0.1:6334",
            "scheduler": "chiplet",
            "machine": f"{len(domains)} domains, {cores} cores, {cores} cpus",
        } | server,
        "window_seconds": 5.0,
        "totals": {
            "accepted": 4_812_907,
            "queued": sum(domain["queued"] for domain in domains),
            "running": sum(domain["busy_workers"] for domain in domains),
            "done": 4_812_733,
            "expired": 3,
            "cancelled": 1,
            "panicked": 0,
            "shed": 118,
            "done_per_second": done,
            "steals": steals(4_489_106, 262_544, 61_083) if tables else steals(),
        },
        "placement": {"version": 14 + len(remaps), "remaps": len(remaps)},
        "domains": domains,
        "tables": tables,
        "tables_not_shown": 0,
        "remaps": list(remaps),
    }


def two_domains():
    """A small server with everything in it: a table in both domains, one being built, one damaged, cold ones."""
    tables = [
        table(0, {0: 1.0}, 250),
        table(1, {0: 1.0}, 130),
        table(2, {0: 0.6, 1: 0.4}, 300),
        table(3, {1: 1.0}, 90),
        table(4, {1: 1.0}, 42, status="yellow"),
        table(5, {0: 1.0}, 61),
        damaged(6),
    ] + [table(number, {number % 2: 1.0}, (number % 3) * 0.7) for number in range(7, 18)]
    return state([domain(0), domain(1)], tables, [remap(15, [("faces", 0, 1)])])


def after_remap():
    """`two_domains` with songs moved to domain 1."""
    moved = two_domains()
    moved["tables"][0]["homes"] = [{"domain": 1, "weight": 1.0}]
    moved["remaps"].insert(0, remap(16, [("songs", 0, 1)]))
    moved["placement"] = {"version": 16, "remaps": 2}
    return moved


def many_domains(domains=12, tables=200):
    listed = [
        table(number, {(number * 7 + number // 12 * 5) % domains: 1.0}, 900 / (number + 3) + (number % 7) * 4)
        for number in range(tables)
    ]
    listed[0]["homes"] = [{"domain": 0, "weight": 0.5}, {"domain": 5, "weight": 0.3}, {"domain": 6, "weight": 0.2}]
    remaps = [
        remap(version, [(name(version), version % domains, (version + 5) % domains), (name(version + 9), 1, 4)])
        for version in range(33, 14, -1)
    ]
    filled = state([domain(number) for number in range(domains)], listed, remaps)
    filled["domains"][3] |= {"queued": 1_911, "shed": 118, "wait_p50_us": 41_000.0, "wait_p99_us": 1_250_000.0}
    filled["tables_not_shown"] = 1_043
    return filled


def hostile():
    """Names and reasons that try to be markup, to push the page wide, or to turn the direction of its text."""
    tables = [table(number, {number % 2: 1.0}, 90 - 5 * number, name=text) for number, text in enumerate(HOSTILE)]
    tables += [damaged(20 + number, name=text, problem=f"{text}: unreadable") for number, text in enumerate(HOSTILE)]
    moves = [(text, 0, 1) for text in HOSTILE]
    return state([domain(0), domain(1)], tables, [remap(15, moves, reason=RUNS_SCRIPT)], name=f"server {RUNS_SCRIPT}")


def empty(domains=2):
    quiet = {"busy_workers": 0, "busy_share": 0.0, "queued": 0, "done_per_second": 0.0, "steals": steals()}
    quiet |= dict.fromkeys(["wait_p50_us", "wait_p99_us", "service_p50_us", "service_p99_us"])
    nothing = state([domain(number) | quiet for number in range(domains)], [], uptime_seconds=12.0)
    nothing["totals"] |= dict.fromkeys(["accepted", "done", "expired", "cancelled", "shed"], 0)
    nothing["placement"] = {"version": 1, "remaps": 0}
    return nothing


def unready(because):
    return empty() | {"server": empty()["server"] | {"ready": False, "not_ready_because": because}}


def draining():
    drains = two_domains()
    drains["server"] |= {"ready": False, "draining": True}
    return drains
