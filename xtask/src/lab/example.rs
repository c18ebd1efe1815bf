// SPDX-License-Identifier: GPL-2.0
//! Findings for tests.

use turnstile_test_protocol::lab::Findings;

/// Small, with everything in it.
pub(super) fn example() -> Findings {
    serde_json::from_str(
        r#"{"name":"x","title":"what it is","source":"a paper","kernel":"7.2.12-virtual","seed":1,
        "setups":[{"title":"one: first","lines":["qdisc add dev DEV root pfifo"]}],
        "tables":[{"title":"t","columns":["port","gap, ns","paper"],
            "rows":[["one",1297.6,1297.6],["another",80,1297.6]]}],
        "plots":[
            {"title":"p","x":"time, us","y":"tokens","style":"steps",
             "series":[{"name":"one","points":[[0.0,1.0],[1.0,3.0],[2.0,0.0]]},
               {"name":"two","points":[]}],
             "levels":[["limit",8.0]]},
            {"title":"q","x":"n","y":"ns","style":"line",
             "series":[{"name":"one","points":[[1.0,-1.0]]}],"levels":[]}],
        "claims":[{"text":"good","holds":true},{"text":"bad","holds":false}],
        "notes":["to know"],"captures":["x-one.pcap"]}"#,
    )
    .unwrap()
}
