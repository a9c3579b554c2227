CREATE TABLE agreements (
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    document TEXT NOT NULL,
    drawn_up_ms INTEGER NOT NULL,
    drawn_up_by TEXT NOT NULL,
    signatures TEXT NOT NULL,
    amendment TEXT NOT NULL,
    revisions INTEGER NOT NULL,
    standing TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    since_by TEXT NOT NULL,
    published INTEGER NOT NULL,
    note TEXT NOT NULL,
    held TEXT NOT NULL,
    CONSTRAINT agreements_key PRIMARY KEY (name)
)
 STRICT;

CREATE TABLE buildable (
    site TEXT NOT NULL,
    listing INTEGER NOT NULL,
    part INTEGER NOT NULL,
    parts INTEGER NOT NULL,
    base TEXT NOT NULL,
    packages TEXT NOT NULL,
    CONSTRAINT buildable_key PRIMARY KEY (site, listing, part)
)
 STRICT;

CREATE TABLE coallocations (
    id INTEGER NOT NULL,
    components TEXT NOT NULL,
    submit_ms INTEGER NOT NULL,
    ready_ms INTEGER NOT NULL,
    first_lease_id INTEGER NOT NULL,
    consumer TEXT NOT NULL,
    "group" TEXT NOT NULL,
    claim TEXT NOT NULL,
    place TEXT NOT NULL,
    deadline_ms INTEGER,
    tries INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    margin_ms INTEGER NOT NULL,
    wait_ppm INTEGER NOT NULL,
    is_foreign INTEGER NOT NULL,
    parts TEXT NOT NULL,
    state TEXT NOT NULL,
    start_ms INTEGER NOT NULL,
    claim_ms INTEGER NOT NULL,
    tried INTEGER NOT NULL,
    idle_vm_ms INTEGER NOT NULL,
    reason TEXT NOT NULL,
    end_ms INTEGER NOT NULL,
    name TEXT NOT NULL,
    command TEXT NOT NULL,
    CONSTRAINT coallocations_key PRIMARY KEY (id)
)
 STRICT;

CREATE TABLE endpoints (
    endpoint TEXT NOT NULL,
    last_sent_seq INTEGER NOT NULL,
    last_received_seq INTEGER NOT NULL,
    CONSTRAINT endpoints_key PRIMARY KEY (endpoint)
)
 STRICT;

CREATE TABLE images (
    name TEXT NOT NULL,
    site TEXT NOT NULL,
    software TEXT NOT NULL,
    packages TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    least_memory_mib INTEGER NOT NULL,
    state TEXT NOT NULL,
    problem TEXT NOT NULL,
    since_ms INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL,
    base TEXT NOT NULL,
    asked TEXT NOT NULL,
    CONSTRAINT images_key PRIMARY KEY (name, site)
)
 STRICT;

CREATE TABLE jobs (
    id INTEGER NOT NULL,
    submitted_ms INTEGER NOT NULL,
    needs TEXT NOT NULL,
    deadline_ms INTEGER,
    command TEXT NOT NULL,
    consumer TEXT NOT NULL,
    "group" TEXT NOT NULL,
    name TEXT NOT NULL,
    environment TEXT NOT NULL,
    array_id INTEGER NOT NULL,
    array_index INTEGER NOT NULL,
    lease_type TEXT NOT NULL,
    backup TEXT NOT NULL,
    reliability REAL,
    restarts INTEGER NOT NULL,
    is_foreign INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    what TEXT NOT NULL,
    restarts_used INTEGER NOT NULL,
    next_ms INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    standby TEXT NOT NULL,
    delivered INTEGER NOT NULL,
    surest REAL,
    ended_ms INTEGER NOT NULL,
    exit_status INTEGER,
    CONSTRAINT jobs_key PRIMARY KEY (id)
)
 STRICT;

CREATE INDEX jobs_consumer ON jobs (consumer, id);

CREATE INDEX jobs_open ON jobs (id) WHERE state NOT IN ('completed', 'failed', 'refused', 'cancelled');

CREATE TABLE leases (
    id INTEGER NOT NULL,
    lease_type TEXT NOT NULL,
    vms INTEGER NOT NULL,
    duration_ms INTEGER NOT NULL,
    submit_ms INTEGER NOT NULL,
    ready_ms INTEGER NOT NULL,
    deadline_ms INTEGER,
    home TEXT,
    consumer TEXT NOT NULL,
    memory_mib INTEGER NOT NULL,
    from_peer TEXT NOT NULL,
    "group" TEXT NOT NULL,
    domain TEXT NOT NULL,
    claims TEXT NOT NULL,
    wait INTEGER NOT NULL,
    is_foreign INTEGER NOT NULL,
    max_restarts INTEGER,
    goes_back INTEGER NOT NULL,
    cores INTEGER NOT NULL,
    gpu_model TEXT NOT NULL,
    gpu_milli INTEGER NOT NULL,
    image TEXT NOT NULL,
    login INTEGER NOT NULL,
    prepared_until_ms INTEGER,
    global_id TEXT NOT NULL,
    via TEXT NOT NULL,
    hop_limit INTEGER NOT NULL,
    on_nodes TEXT NOT NULL,
    "order" INTEGER NOT NULL,
    work_left INTEGER NOT NULL,
    site TEXT NOT NULL,
    state TEXT NOT NULL,
    span_ms INTEGER NOT NULL,
    earliest_ms INTEGER NOT NULL,
    latest_ms INTEGER,
    reserved_ms INTEGER NOT NULL,
    held_since_ms INTEGER NOT NULL,
    overhead_ms INTEGER NOT NULL,
    first_start_ms INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    preemptions INTEGER NOT NULL,
    migrations INTEGER NOT NULL,
    overhead_vm_ms INTEGER NOT NULL,
    dispatched_ms INTEGER NOT NULL,
    restarts INTEGER NOT NULL,
    handed_back INTEGER NOT NULL,
    memory_at TEXT NOT NULL,
    place INTEGER NOT NULL,
    checkpointed_ms INTEGER NOT NULL,
    wanted_ms INTEGER NOT NULL,
    placed TEXT NOT NULL,
    name TEXT NOT NULL,
    command TEXT NOT NULL,
    origin TEXT NOT NULL,
    origin_id INTEGER NOT NULL,
    reason TEXT NOT NULL,
    end_ms INTEGER,
    native_job TEXT NOT NULL,
    breach TEXT NOT NULL,
    coallocation_id INTEGER,
    job_id INTEGER,
    constraints TEXT NOT NULL,
    files TEXT NOT NULL,
    project TEXT NOT NULL,
    notify TEXT NOT NULL,
    ssh_key TEXT NOT NULL,
    onward TEXT NOT NULL,
    CONSTRAINT leases_key PRIMARY KEY (id)
)
 STRICT;

CREATE INDEX leases_coallocation ON leases (coallocation_id) WHERE coallocation_id IS NOT NULL;

CREATE INDEX leases_consumer ON leases (consumer, id);

CREATE INDEX leases_origin ON leases (origin, origin_id) WHERE origin_id > 0;

CREATE INDEX leases_live ON leases (id, site, state) WHERE state NOT IN ('completed', 'killed', 'terminated', 'failed', 'refused', 'cancelled');

CREATE TABLE messages (
    endpoint TEXT NOT NULL,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    CONSTRAINT messages_key PRIMARY KEY (endpoint, seq)
)
 STRICT;

CREATE TABLE nodes (
    name TEXT NOT NULL,
    site TEXT NOT NULL,
    cores INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    disk_mib INTEGER NOT NULL,
    free_cores INTEGER NOT NULL,
    free_memory_mib INTEGER NOT NULL,
    free_disk_mib INTEGER NOT NULL,
    cpu_mhz INTEGER NOT NULL,
    bytes_per_s INTEGER NOT NULL,
    software TEXT NOT NULL,
    is_host INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    takes_files INTEGER NOT NULL,
    gpu_model TEXT NOT NULL,
    gpus INTEGER NOT NULL,
    gpu_shares INTEGER NOT NULL,
    free_gpus TEXT NOT NULL,
    problem TEXT NOT NULL,
    fault TEXT NOT NULL,
    seen_ms INTEGER NOT NULL,
    first_ms INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    failed_ms INTEGER,
    charged REAL NOT NULL,
    watched_ms INTEGER NOT NULL,
    well_ms INTEGER NOT NULL,
    listing INTEGER NOT NULL,
    CONSTRAINT nodes_key PRIMARY KEY (name)
)
 STRICT;

CREATE TABLE peers (
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    ask TEXT NOT NULL,
    max_vms INTEGER,
    max_hops INTEGER NOT NULL,
    line TEXT NOT NULL,
    added_ms INTEGER NOT NULL,
    added_by TEXT NOT NULL,
    CONSTRAINT peers_key PRIMARY KEY (name)
)
 STRICT;

CREATE TABLE penalties (
    id INTEGER NOT NULL,
    agreement TEXT NOT NULL,
    provider TEXT NOT NULL,
    consumer TEXT NOT NULL,
    points INTEGER NOT NULL,
    since_ms INTEGER NOT NULL,
    until_ms INTEGER,
    lease_id INTEGER NOT NULL,
    lifted_ms INTEGER,
    lifted_by TEXT NOT NULL,
    CONSTRAINT penalties_key PRIMARY KEY (id)
)
 STRICT;

CREATE TABLE sites (
    name TEXT NOT NULL,
    drained_ms INTEGER,
    drained_by TEXT NOT NULL,
    note TEXT NOT NULL,
    CONSTRAINT sites_key PRIMARY KEY (name)
)
 STRICT;

CREATE TABLE snapshots (
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    CONSTRAINT snapshots_key PRIMARY KEY (name)
)
 STRICT;

CREATE TABLE tokens (
    id TEXT NOT NULL,
    hash TEXT NOT NULL,
    consumer TEXT NOT NULL,
    roles TEXT NOT NULL,
    groups TEXT NOT NULL,
    sites TEXT NOT NULL,
    note TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER,
    CONSTRAINT tokens_key PRIMARY KEY (id),
    CONSTRAINT tokens_hash_once UNIQUE (hash)
)
 STRICT;

CREATE TABLE usage (
    lease_id INTEGER NOT NULL,
    begin_ms INTEGER NOT NULL,
    end_ms INTEGER NOT NULL,
    consumer TEXT NOT NULL,
    "group" TEXT NOT NULL,
    path TEXT NOT NULL,
    site TEXT NOT NULL,
    domain TEXT NOT NULL,
    vms INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    claims TEXT NOT NULL,
    is_local INTEGER NOT NULL,
    CONSTRAINT usage_key PRIMARY KEY (lease_id, begin_ms)
)
 STRICT;

CREATE INDEX usage_end_ms ON usage (end_ms);

CREATE TABLE attempts (
    job_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    place TEXT NOT NULL,
    ordered_ms INTEGER NOT NULL,
    is_backup INTEGER NOT NULL,
    state TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL,
    fault TEXT,
    detail TEXT NOT NULL,
    exit_status INTEGER,
    site TEXT NOT NULL,
    lease_id INTEGER,
    "end" TEXT NOT NULL,
    CONSTRAINT attempts_key PRIMARY KEY (job_id, number),
    CONSTRAINT attempts_job_id_known FOREIGN KEY(job_id) REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT attempts_lease_id_known FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED
)
 STRICT;

CREATE INDEX attempts_lease ON attempts (lease_id);

CREATE INDEX attempts_site ON attempts (site);

CREATE TABLE idempotency_keys (
    consumer TEXT NOT NULL,
    "key" TEXT NOT NULL,
    of_job INTEGER NOT NULL,
    request_hash TEXT NOT NULL,
    lease_id INTEGER,
    job_id INTEGER,
    created_ms INTEGER NOT NULL,
    CONSTRAINT idempotency_keys_key PRIMARY KEY (consumer, "key", of_job),
    CONSTRAINT idempotency_keys_lease_id_known FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT idempotency_keys_job_id_known FOREIGN KEY(job_id) REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED
)
 STRICT;

CREATE INDEX idempotency_keys_created_ms ON idempotency_keys (created_ms);

CREATE TABLE journal (
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    lease_id INTEGER,
    consumer TEXT NOT NULL,
    "group" TEXT NOT NULL,
    site TEXT NOT NULL,
    what TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    rule TEXT NOT NULL,
    detail TEXT NOT NULL,
    job_id INTEGER,
    CONSTRAINT journal_key PRIMARY KEY (seq),
    CONSTRAINT journal_lease_id_known FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED
)
 STRICT;

CREATE INDEX journal_job ON journal (job_id, seq) WHERE job_id IS NOT NULL;

CREATE INDEX journal_lease ON journal (lease_id, seq);

CREATE TABLE orders (
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    verb TEXT NOT NULL,
    lease_id INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    vms INTEGER NOT NULL,
    memory_mib INTEGER NOT NULL,
    command TEXT NOT NULL,
    work_done INTEGER NOT NULL,
    other_site TEXT NOT NULL,
    constraints TEXT NOT NULL,
    files TEXT NOT NULL,
    account TEXT NOT NULL,
    notify TEXT NOT NULL,
    notice_ms INTEGER NOT NULL,
    ssh_key TEXT NOT NULL,
    site TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    next_try_ms INTEGER NOT NULL,
    problem TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    CONSTRAINT orders_key PRIMARY KEY (number),
    CONSTRAINT orders_id_once UNIQUE (id),
    CONSTRAINT orders_lease_id_known FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED
)
 STRICT;

CREATE INDEX orders_open ON orders (number) WHERE status IN ('pending', 'taken');

CREATE TABLE outputs (
    job_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    error TEXT NOT NULL,
    files TEXT NOT NULL,
    is_whole INTEGER NOT NULL,
    fetched_ms INTEGER NOT NULL,
    consumer TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    CONSTRAINT outputs_key PRIMARY KEY (job_id, number),
    CONSTRAINT outputs_job_id_known FOREIGN KEY(job_id) REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED
)
 STRICT;

CREATE INDEX outputs_consumer ON outputs (consumer, fetched_ms, job_id, size_bytes);
