CREATE TABLE agreements (
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    document TEXT NOT NULL,
    drawn_up_ms BIGINT NOT NULL,
    drawn_up_by TEXT NOT NULL,
    signatures TEXT NOT NULL,
    amendment TEXT NOT NULL,
    revisions BIGINT NOT NULL,
    standing TEXT NOT NULL,
    since_ms BIGINT NOT NULL,
    since_by TEXT NOT NULL,
    published BIGINT NOT NULL,
    note TEXT NOT NULL,
    held TEXT NOT NULL,
    CONSTRAINT agreements_key PRIMARY KEY (name)
);

CREATE TABLE buildable (
    site TEXT NOT NULL,
    listing BIGINT NOT NULL,
    part BIGINT NOT NULL,
    parts BIGINT NOT NULL,
    base TEXT NOT NULL,
    packages TEXT NOT NULL,
    CONSTRAINT buildable_key PRIMARY KEY (site, listing, part)
);

CREATE TABLE coallocations (
    id BIGINT NOT NULL,
    components TEXT NOT NULL,
    submit_ms BIGINT NOT NULL,
    ready_ms BIGINT NOT NULL,
    first_lease_id BIGINT NOT NULL,
    consumer TEXT NOT NULL,
    "group" TEXT NOT NULL,
    claim TEXT NOT NULL,
    place TEXT NOT NULL,
    deadline_ms BIGINT,
    tries BIGINT NOT NULL,
    retries BIGINT NOT NULL,
    margin_ms BIGINT NOT NULL,
    wait_ppm BIGINT NOT NULL,
    is_foreign BIGINT NOT NULL,
    parts TEXT NOT NULL,
    state TEXT NOT NULL,
    start_ms BIGINT NOT NULL,
    claim_ms BIGINT NOT NULL,
    tried BIGINT NOT NULL,
    idle_vm_ms BIGINT NOT NULL,
    reason TEXT NOT NULL,
    end_ms BIGINT NOT NULL,
    name TEXT NOT NULL,
    command TEXT NOT NULL,
    CONSTRAINT coallocations_key PRIMARY KEY (id)
);

CREATE TABLE endpoints (
    endpoint TEXT NOT NULL,
    last_sent_seq BIGINT NOT NULL,
    last_received_seq BIGINT NOT NULL,
    CONSTRAINT endpoints_key PRIMARY KEY (endpoint)
);

CREATE TABLE images (
    name TEXT NOT NULL,
    site TEXT NOT NULL,
    software TEXT NOT NULL,
    packages TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    least_memory_mib BIGINT NOT NULL,
    state TEXT NOT NULL,
    problem TEXT NOT NULL,
    since_ms BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL,
    base TEXT NOT NULL,
    asked TEXT NOT NULL,
    CONSTRAINT images_key PRIMARY KEY (name, site)
);

CREATE TABLE jobs (
    id BIGINT NOT NULL,
    submitted_ms BIGINT NOT NULL,
    needs TEXT NOT NULL,
    deadline_ms BIGINT,
    command TEXT NOT NULL,
    consumer TEXT NOT NULL,
    "group" TEXT NOT NULL,
    name TEXT NOT NULL,
    environment TEXT NOT NULL,
    array_id BIGINT NOT NULL,
    array_index BIGINT NOT NULL,
    lease_type TEXT NOT NULL,
    backup TEXT NOT NULL,
    reliability DOUBLE PRECISION,
    restarts BIGINT NOT NULL,
    is_foreign BIGINT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    what TEXT NOT NULL,
    restarts_used BIGINT NOT NULL,
    next_ms BIGINT NOT NULL,
    since_ms BIGINT NOT NULL,
    standby TEXT NOT NULL,
    delivered BIGINT NOT NULL,
    surest DOUBLE PRECISION,
    ended_ms BIGINT NOT NULL,
    exit_status BIGINT,
    CONSTRAINT jobs_key PRIMARY KEY (id)
);

CREATE INDEX jobs_consumer ON jobs (consumer, id);

CREATE INDEX jobs_open ON jobs (id) WHERE state NOT IN ('completed', 'failed', 'refused', 'cancelled');

CREATE TABLE leases (
    id BIGINT NOT NULL,
    lease_type TEXT NOT NULL,
    vms BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    submit_ms BIGINT NOT NULL,
    ready_ms BIGINT NOT NULL,
    deadline_ms BIGINT,
    home TEXT,
    consumer TEXT NOT NULL,
    memory_mib BIGINT NOT NULL,
    from_peer TEXT NOT NULL,
    "group" TEXT NOT NULL,
    domain TEXT NOT NULL,
    claims TEXT NOT NULL,
    wait BIGINT NOT NULL,
    is_foreign BIGINT NOT NULL,
    max_restarts BIGINT,
    goes_back BIGINT NOT NULL,
    cores BIGINT NOT NULL,
    gpu_model TEXT NOT NULL,
    gpu_milli BIGINT NOT NULL,
    image TEXT NOT NULL,
    login BIGINT NOT NULL,
    prepared_until_ms BIGINT,
    global_id TEXT NOT NULL,
    via TEXT NOT NULL,
    hop_limit BIGINT NOT NULL,
    on_nodes TEXT NOT NULL,
    "order" BIGINT NOT NULL,
    work_left BIGINT NOT NULL,
    site TEXT NOT NULL,
    state TEXT NOT NULL,
    span_ms BIGINT NOT NULL,
    earliest_ms BIGINT NOT NULL,
    latest_ms BIGINT,
    reserved_ms BIGINT NOT NULL,
    held_since_ms BIGINT NOT NULL,
    overhead_ms BIGINT NOT NULL,
    first_start_ms BIGINT NOT NULL,
    incarnation BIGINT NOT NULL,
    preemptions BIGINT NOT NULL,
    migrations BIGINT NOT NULL,
    overhead_vm_ms BIGINT NOT NULL,
    dispatched_ms BIGINT NOT NULL,
    restarts BIGINT NOT NULL,
    handed_back BIGINT NOT NULL,
    memory_at TEXT NOT NULL,
    place BIGINT NOT NULL,
    checkpointed_ms BIGINT NOT NULL,
    wanted_ms BIGINT NOT NULL,
    placed TEXT NOT NULL,
    name TEXT NOT NULL,
    command TEXT NOT NULL,
    origin TEXT NOT NULL,
    origin_id BIGINT NOT NULL,
    reason TEXT NOT NULL,
    end_ms BIGINT,
    native_job TEXT NOT NULL,
    breach TEXT NOT NULL,
    coallocation_id BIGINT,
    job_id BIGINT,
    constraints TEXT NOT NULL,
    files TEXT NOT NULL,
    project TEXT NOT NULL,
    notify TEXT NOT NULL,
    ssh_key TEXT NOT NULL,
    onward TEXT NOT NULL,
    CONSTRAINT leases_key PRIMARY KEY (id)
);

CREATE INDEX leases_coallocation ON leases (coallocation_id) WHERE coallocation_id IS NOT NULL;

CREATE INDEX leases_consumer ON leases (consumer, id);

CREATE INDEX leases_origin ON leases (origin, origin_id) WHERE origin_id > 0;

CREATE INDEX leases_live ON leases (id, site, state) WHERE state NOT IN ('completed', 'killed', 'terminated', 'failed', 'refused', 'cancelled');

CREATE TABLE messages (
    endpoint TEXT NOT NULL,
    seq BIGINT NOT NULL,
    body TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    CONSTRAINT messages_key PRIMARY KEY (endpoint, seq)
);

CREATE TABLE nodes (
    name TEXT NOT NULL,
    site TEXT NOT NULL,
    cores BIGINT NOT NULL,
    memory_mib BIGINT NOT NULL,
    disk_mib BIGINT NOT NULL,
    free_cores BIGINT NOT NULL,
    free_memory_mib BIGINT NOT NULL,
    free_disk_mib BIGINT NOT NULL,
    cpu_mhz BIGINT NOT NULL,
    bytes_per_s BIGINT NOT NULL,
    software TEXT NOT NULL,
    is_host BIGINT NOT NULL,
    runs BIGINT NOT NULL,
    takes_files BIGINT NOT NULL,
    gpu_model TEXT NOT NULL,
    gpus BIGINT NOT NULL,
    gpu_shares BIGINT NOT NULL,
    free_gpus TEXT NOT NULL,
    problem TEXT NOT NULL,
    fault TEXT NOT NULL,
    seen_ms BIGINT NOT NULL,
    first_ms BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    failed_ms BIGINT,
    charged DOUBLE PRECISION NOT NULL,
    watched_ms BIGINT NOT NULL,
    well_ms BIGINT NOT NULL,
    listing BIGINT NOT NULL,
    CONSTRAINT nodes_key PRIMARY KEY (name)
);

CREATE TABLE peers (
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    ask TEXT NOT NULL,
    max_vms BIGINT,
    max_hops BIGINT NOT NULL,
    line TEXT NOT NULL,
    added_ms BIGINT NOT NULL,
    added_by TEXT NOT NULL,
    CONSTRAINT peers_key PRIMARY KEY (name)
);

CREATE TABLE penalties (
    id BIGINT NOT NULL,
    agreement TEXT NOT NULL,
    provider TEXT NOT NULL,
    consumer TEXT NOT NULL,
    points BIGINT NOT NULL,
    since_ms BIGINT NOT NULL,
    until_ms BIGINT,
    lease_id BIGINT NOT NULL,
    lifted_ms BIGINT,
    lifted_by TEXT NOT NULL,
    CONSTRAINT penalties_key PRIMARY KEY (id)
);

CREATE TABLE sites (
    name TEXT NOT NULL,
    drained_ms BIGINT,
    drained_by TEXT NOT NULL,
    note TEXT NOT NULL,
    CONSTRAINT sites_key PRIMARY KEY (name)
);

CREATE TABLE snapshots (
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    CONSTRAINT snapshots_key PRIMARY KEY (name)
);

CREATE TABLE tokens (
    id TEXT NOT NULL,
    hash TEXT NOT NULL,
    consumer TEXT NOT NULL,
    roles TEXT NOT NULL,
    groups TEXT NOT NULL,
    sites TEXT NOT NULL,
    note TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    revoked_ms BIGINT,
    CONSTRAINT tokens_key PRIMARY KEY (id),
    CONSTRAINT tokens_hash_once UNIQUE (hash)
);

CREATE TABLE usage (
    lease_id BIGINT NOT NULL,
    begin_ms BIGINT NOT NULL,
    end_ms BIGINT NOT NULL,
    consumer TEXT NOT NULL,
    "group" TEXT NOT NULL,
    path TEXT NOT NULL,
    site TEXT NOT NULL,
    domain TEXT NOT NULL,
    vms BIGINT NOT NULL,
    memory_mib BIGINT NOT NULL,
    claims TEXT NOT NULL,
    is_local BIGINT NOT NULL,
    CONSTRAINT usage_key PRIMARY KEY (lease_id, begin_ms)
);

CREATE INDEX usage_end_ms ON usage (end_ms);

CREATE TABLE attempts (
    job_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    place TEXT NOT NULL,
    ordered_ms BIGINT NOT NULL,
    is_backup BIGINT NOT NULL,
    state TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    ended_ms BIGINT NOT NULL,
    fault TEXT,
    detail TEXT NOT NULL,
    exit_status BIGINT,
    site TEXT NOT NULL,
    lease_id BIGINT,
    "end" TEXT NOT NULL,
    CONSTRAINT attempts_key PRIMARY KEY (job_id, number),
    CONSTRAINT attempts_job_id_known FOREIGN KEY(job_id) REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT attempts_lease_id_known FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED
);

CREATE INDEX attempts_lease ON attempts (lease_id);

CREATE INDEX attempts_site ON attempts (site);

CREATE TABLE idempotency_keys (
    consumer TEXT NOT NULL,
    key TEXT NOT NULL,
    of_job BIGINT NOT NULL,
    request_hash TEXT NOT NULL,
    lease_id BIGINT,
    job_id BIGINT,
    created_ms BIGINT NOT NULL,
    CONSTRAINT idempotency_keys_key PRIMARY KEY (consumer, key, of_job),
    CONSTRAINT idempotency_keys_lease_id_known FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT idempotency_keys_job_id_known FOREIGN KEY(job_id) REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED
);

CREATE INDEX idempotency_keys_created_ms ON idempotency_keys (created_ms);

CREATE TABLE journal (
    seq BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    lease_id BIGINT,
    consumer TEXT NOT NULL,
    "group" TEXT NOT NULL,
    site TEXT NOT NULL,
    what TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    rule TEXT NOT NULL,
    detail TEXT NOT NULL,
    job_id BIGINT,
    CONSTRAINT journal_key PRIMARY KEY (seq),
    CONSTRAINT journal_lease_id_known FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED
);

CREATE INDEX journal_job ON journal (job_id, seq) WHERE job_id IS NOT NULL;

CREATE INDEX journal_lease ON journal (lease_id, seq);

CREATE TABLE orders (
    number BIGINT GENERATED BY DEFAULT AS IDENTITY,
    id TEXT NOT NULL,
    verb TEXT NOT NULL,
    lease_id BIGINT NOT NULL,
    incarnation BIGINT NOT NULL,
    vms BIGINT NOT NULL,
    memory_mib BIGINT NOT NULL,
    command TEXT NOT NULL,
    work_done BIGINT NOT NULL,
    other_site TEXT NOT NULL,
    constraints TEXT NOT NULL,
    files TEXT NOT NULL,
    account TEXT NOT NULL,
    notify TEXT NOT NULL,
    notice_ms BIGINT NOT NULL,
    ssh_key TEXT NOT NULL,
    site TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    next_try_ms BIGINT NOT NULL,
    problem TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    CONSTRAINT orders_key PRIMARY KEY (number),
    CONSTRAINT orders_id_once UNIQUE (id),
    CONSTRAINT orders_lease_id_known FOREIGN KEY(lease_id) REFERENCES leases (id) DEFERRABLE INITIALLY DEFERRED
);

CREATE INDEX orders_open ON orders (number) WHERE status IN ('pending', 'taken');

CREATE TABLE outputs (
    job_id BIGINT NOT NULL,
    number BIGINT NOT NULL,
    text TEXT NOT NULL,
    error TEXT NOT NULL,
    files TEXT NOT NULL,
    is_whole BIGINT NOT NULL,
    fetched_ms BIGINT NOT NULL,
    consumer TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    CONSTRAINT outputs_key PRIMARY KEY (job_id, number),
    CONSTRAINT outputs_job_id_known FOREIGN KEY(job_id) REFERENCES jobs (id) DEFERRABLE INITIALLY DEFERRED
);

CREATE INDEX outputs_consumer ON outputs (consumer, fetched_ms, job_id, size_bytes);
