BEGIN TRANSACTION;
CREATE TABLE accounts (
	population VARCHAR(128) NOT NULL, 
	unit TEXT NOT NULL, 
	neighbours TEXT NOT NULL, 
	limit_epsilon TEXT NOT NULL, 
	limit_delta TEXT NOT NULL, 
	CONSTRAINT pk_accounts PRIMARY KEY (population)
);
INSERT INTO "accounts" VALUES('nyc_planes','"tailnum"','add_remove','1/1','1/1000000');
CREATE TABLE budget_changes (
	id INTEGER NOT NULL, 
	population VARCHAR(128) NOT NULL, 
	old_epsilon TEXT, 
	old_delta TEXT, 
	new_epsilon TEXT NOT NULL, 
	new_delta TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	os_user TEXT NOT NULL, 
	at TEXT NOT NULL, 
	CONSTRAINT pk_budget_changes PRIMARY KEY (id), 
	CONSTRAINT fk_budget_changes_population FOREIGN KEY(population) REFERENCES accounts (population)
);
INSERT INTO "budget_changes" VALUES(1,'nyc_planes',NULL,NULL,'1/1','1/1000000','decided by the board','operator','2026-11-30T00:56:18.051559+00:00');
CREATE TABLE events (
	id INTEGER NOT NULL, 
	release INTEGER NOT NULL, 
	from_state TEXT, 
	to_state TEXT NOT NULL, 
	fence INTEGER NOT NULL, 
	failed_checks TEXT, 
	at TEXT NOT NULL, 
	host TEXT NOT NULL, 
	pid INTEGER NOT NULL, 
	CONSTRAINT pk_events PRIMARY KEY (id), 
	CONSTRAINT fk_events_release FOREIGN KEY(release) REFERENCES releases (id)
);
INSERT INTO "events" VALUES(1,1,NULL,'reserved',1,NULL,'2026-11-30T00:56:18.057910+00:00','host',10016);
CREATE TABLE ledger_meta (
	id INTEGER NOT NULL, 
	schema_version INTEGER NOT NULL, 
	created_at TEXT NOT NULL, 
	master_key_check BLOB, 
	CONSTRAINT pk_ledger_meta PRIMARY KEY (id)
);
INSERT INTO "ledger_meta" VALUES(1,2,'2026-11-30T00:56:17.981281+00:00',X'4B4C670154FCEEBEE5808A66AFD75723');
CREATE TABLE noise_tables (
	digest VARCHAR(64) NOT NULL, 
	body BLOB NOT NULL, 
	CONSTRAINT pk_noise_tables PRIMARY KEY (digest)
);
INSERT INTO "noise_tables" VALUES('5767cc31ae9cbe923b031aa7db4a8512bcf431d2d8277451033ee18932eb9435',X'7461626C652D31');
CREATE TABLE publications (
	release INTEGER NOT NULL, 
	sink TEXT NOT NULL, 
	target TEXT NOT NULL, 
	state TEXT NOT NULL, 
	artefact_digest TEXT NOT NULL, 
	at TEXT NOT NULL, 
	CONSTRAINT pk_publications PRIMARY KEY (release, sink), 
	CONSTRAINT fk_publications_release FOREIGN KEY(release) REFERENCES releases (id)
);
CREATE TABLE release_keys (
	release INTEGER NOT NULL, 
	wrapped BLOB NOT NULL, 
	CONSTRAINT pk_release_keys PRIMARY KEY (release), 
	CONSTRAINT fk_release_keys_release FOREIGN KEY(release) REFERENCES releases (id)
);
INSERT INTO "release_keys" VALUES(1,X'39BE372A4440774314025D03F659819EE40AF6A0590665A48D0FC1097313B94A34264E095FB2E82FB9B65482ECF2FF6E36C535295586BCFD05ED768C');
CREATE TABLE release_tables (
	release INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	CONSTRAINT pk_release_tables PRIMARY KEY (release, name), 
	CONSTRAINT fk_release_tables_release FOREIGN KEY(release) REFERENCES releases (id), 
	CONSTRAINT fk_release_tables_digest FOREIGN KEY(digest) REFERENCES noise_tables (digest)
);
INSERT INTO "release_tables" VALUES(1,'counts','5767cc31ae9cbe923b031aa7db4a8512bcf431d2d8277451033ee18932eb9435');
CREATE TABLE releases (
	id INTEGER NOT NULL, 
	population VARCHAR(128) NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	period_key VARCHAR(128) NOT NULL, 
	revision INTEGER NOT NULL, 
	spec_digest TEXT NOT NULL, 
	state TEXT NOT NULL, 
	fence INTEGER NOT NULL, 
	charge_epsilon TEXT NOT NULL, 
	charge_delta TEXT NOT NULL, 
	artefact_digest TEXT, 
	artefact_path TEXT, 
	artefact_fence INTEGER, 
	statement_digest TEXT, 
	statement_path TEXT, 
	"plan" BLOB NOT NULL, 
	CONSTRAINT pk_releases PRIMARY KEY (id), 
	CONSTRAINT uq_releases_population UNIQUE (population, name, period_key, revision), 
	CONSTRAINT fk_releases_population FOREIGN KEY(population) REFERENCES accounts (population)
);
INSERT INTO "releases" VALUES(1,'nyc_planes','flights','2013-01-01',0,'spec-1','reserved',1,'1/10','0/1',NULL,NULL,NULL,NULL,NULL,X'706C616E2D31');
CREATE INDEX ix_events_release ON events (release);
CREATE TRIGGER budget_changes_no_update BEFORE UPDATE ON budget_changes BEGIN SELECT RAISE(ABORT, 'budget_changes is append-only'); END;
CREATE TRIGGER budget_changes_no_delete BEFORE DELETE ON budget_changes BEGIN SELECT RAISE(ABORT, 'budget_changes is append-only'); END;
CREATE TRIGGER events_no_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events is append-only'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events is append-only'); END;
COMMIT;
