"""The safeguards, and how each is taken out of the source.

A mutation is a few replacements in text. Each pattern must still be found: a safeguard that was
rewritten needs its mutation rewritten too, or nothing would prove any more that a test sees it.
"""

from __future__ import annotations

from tests.mutation.cuts import Cut, Mutation

TICK = "tests/integration/dispatch/test_tick.py"
HOUSE = "tests/integration/dispatch/test_housekeeping.py"
LEADING = "tests/integration/dispatch/test_leadership.py"
LOOPS = "tests/integration/dispatch/test_loops.py"
STORE = "tests/integration/store"
EXECUTE = "tests/integration/work/test_execute.py"
LEAVING = "tests/integration/work/test_leaving.py"

MUTATIONS = (
    Mutation(
        name="fence: one statement",
        cuts=(Cut("store/sql/*.sql", r"AND l\.epoch = %\(epoch\)s\)", ")"),),
        tests=(f"{TICK}::test_an_old_epoch_changes_nothing",),
        databases=("postgres",),
    ),
    Mutation(
        name="fence: transaction",
        cuts=(Cut("store/portable_slots.py", r"if not leader\.is_current\(epoch\):", "if False:"),),
        tests=(f"{TICK}::test_an_old_epoch_changes_nothing",),
    ),
    Mutation(
        name="fence: housekeeping",
        cuts=(Cut("store/schedules.py", r"if not leader\.is_current\(epoch\):", "if False:"),),
        tests=(f"{HOUSE}::test_a_term_that_is_over_mends_nothing",),
    ),
    Mutation(
        name="trust in a term runs out",
        cuts=(Cut("dispatch/term.py", r"if not self\.is_trusted:", "if False:"),),
        tests=(f"{TICK}::test_a_term_whose_proof_is_old_does_nothing",),
    ),
    Mutation(
        name="wrong clock of a leader",
        cuts=(Cut("dispatch/leadership.py", r"self\.resign\(self\._clock_fault\(\)\)", "pass"),),
        tests=(f"{LEADING}::test_a_leader_whose_clock_is_set_wrong_gives_the_lead_away",),
    ),
    Mutation(
        name="hung dispatching",
        cuts=(Cut("processes/dispatcher.py", r"self\._dispatching\.fault or ", ""),),
        tests=(f"{LOOPS}::test_a_node_whose_dispatching_hangs_gives_the_lead_away",),
    ),
    Mutation(
        name="epoch minted by comparison",
        cuts=(
            Cut(
                "store/leader.py",
                r"free, namespace=conf\.get\(\)\.NAMESPACE, epoch=seen\.epoch",
                "free, namespace=conf.get().NAMESPACE",
            ),
        ),
        tests=(f"{STORE}/test_leader.py::test_of_two_who_saw_the_same_row_one_wins",),
    ),
    Mutation(
        name="slot uniqueness",
        cuts=(
            Cut("store/slots.py", r"fingerprint\(namespace, key\)\.hex", "None"),
            Cut("store/portable_slots.py", r"dedupe=fingerprint\(namespace, key\)", "dedupe=None"),
        ),
        tests=(
            f"{TICK}::test_the_same_slot_never_becomes_two_runs",
            f"{TICK}::test_a_slot_that_exists_already_is_done_and_does_not_wedge_the_schedule",
        ),
        databases=("sqlite", "postgres"),
    ),
    Mutation(
        name="version of the schedule",
        cuts=(
            Cut("store/sql/*.sql", r"AND s\.version = d\.seen_version "),
            Cut("store/portable_slots.py", r"version=move\.seen_version,"),
        ),
        tests=(
            "tests/concurrency/test_scheduling.py::test_an_edit_between_the_look_and_the_write_wins",
        ),
        databases=("sqlite", "postgres"),
    ),
    Mutation(
        name="watermark",
        cuts=(
            Cut(
                "dispatch/plan.py",
                r"if self\.done_until is not None and slot <= self\.done_until:",
                "if False:",
            ),
        ),
        tests=(f"{TICK}::test_pruning_the_run_does_not_forget_the_slot",),
    ),
    Mutation(
        name="pause",
        cuts=(Cut("dispatch/plan.py", r"if due\.paused_at is None:", "if True:"),),
        tests=(f"{TICK}::test_slots_of_a_paused_schedule_pass_and_are_recorded",),
    ),
    Mutation(
        name="overlap at dispatch",
        cuts=(
            Cut(
                "store/sql/*.sql",
                r"p\.ordinal > roomy\.room AS is_too_many",
                "FALSE AS is_too_many",
            ),
            Cut("store/portable_slots.py", r"if room <= 0:", "if False:"),
        ),
        tests=(f"{TICK}::test_overlap_skip_records_the_slot_while_a_run_is_active",),
        databases=("sqlite", "postgres"),
    ),
    Mutation(
        name="overlap at claim",
        cuts=(
            Cut(
                "store/**/*.py",
                r"busy\.guard = picked\.guard AND busy\.status = 'running'",
                "FALSE",
            ),
            Cut("store/claims.py", r"if guard in busy:", "if False:"),
            Cut(
                "migrations/0001_initial.py",
                r"name='one_running_per_schedule', unique=True",
                "name='one_running_per_schedule', unique=False",
            ),
        ),
        tests=(f"{STORE}/test_claims.py::test_a_run_beside_a_running_one_of_its_schedule_is_left",),
        databases=("sqlite", "postgres"),
    ),
    Mutation(
        name="overlap in the index",
        cuts=(
            Cut(
                "migrations/0001_initial.py",
                r"name='one_running_per_schedule', unique=True",
                "name='one_running_per_schedule', unique=False",
            ),
        ),
        tests=(
            f"{STORE}/test_migrations.py"
            "::test_the_database_itself_refuses_a_second_running_run_of_a_guarded_schedule",
        ),
        databases=("sqlite", "postgres"),
    ),
    Mutation(
        name="limit on what runs at once",
        cuts=(Cut("store/gates.py", r"if len\(going\) >= room:", "if False:"),),
        tests=(f"{STORE}/test_gates.py::test_so_many_pass_and_the_others_wait",),
    ),
    Mutation(
        name="attempt token",
        cuts=(
            Cut("store/**/*.py", r" AND r\.token = o\.token"),
            Cut(
                "store/outcomes.py",
                r"status=State\.RUNNING, token=ending\.claim\.token",
                "status=State.RUNNING",
            ),
        ),
        tests=(f"{STORE}/test_transitions.py::test_an_attempt_that_is_over_can_change_nothing",),
        databases=("sqlite", "postgres"),
    ),
    Mutation(
        name="attempt token of a step",
        cuts=(Cut("store/steps.py", r"if not mine\.exists\(\):", "if False:"),),
        tests=(f"{STORE}/test_transitions.py::test_an_attempt_that_is_over_can_store_no_step",),
    ),
    Mutation(
        name="completion of an atomic handler",
        cuts=(Cut("work/execute.py", r"if facts\.id not in recorded\.accepted:", "if False:"),),
        tests=(f"{EXECUTE}::test_a_run_that_is_taken_away_at_the_last_moment_has_no_effects",),
    ),
    Mutation(
        name="quiet rollback of an atomic handler",
        cuts=(Cut("work/execute.py", r"if connection\(\)\.needs_rollback:", "if False:"),),
        tests=(f"{EXECUTE}::test_a_handler_that_rolls_back_quietly_has_failed",),
    ),
    Mutation(
        name="crash cap: children",
        cuts=(Cut("work/complete.py", r"dead = guilty and [^\n]*", "dead = False"),),
        tests=("tests/mutation/test_crash_cap.py::test_a_run_that_kills_its_process_dies_of_it",),
    ),
    Mutation(
        name="crash cap: nodes",
        cuts=(Cut("store/nodes.py", r"dead = crash and [^\n]*", "dead = False"),),
        tests=(
            f"{STORE}/test_transitions.py"
            "::test_the_first_loss_of_a_node_charges_nothing_and_the_next_ones_do",
        ),
    ),
    Mutation(
        name="taking back from dead nodes",
        cuts=(Cut("dispatch/sweep.py", r"taken \+= _take_back\(silence\)", "pass"),),
        tests=(f"{HOUSE}::test_runs_of_a_dead_node_are_taken_up_again",),
    ),
    Mutation(
        name="the sweeper's own contact",
        cuts=(
            Cut(
                "dispatch/sweep.py",
                r"if contact\.unbroken_seconds >= settings\.NODE_LEASE:",
                "if True:",
            ),
        ),
        tests=(f"{HOUSE}::test_who_has_not_watched_for_a_lease_takes_nothing_back",),
    ),
    Mutation(
        name="orphan sweep",
        cuts=(Cut("dispatch/sweep.py", r"orphans=_end_orphans\(now\)", "orphans=0"),),
        tests=(f"{HOUSE}::test_a_run_far_beyond_its_timeout_is_ended",),
    ),
    Mutation(
        name="reconciler: lost ids",
        cuts=(Cut("dispatch/reconcile.py", r"pushed = _push\(now\)", "pushed = 0"),),
        tests=(f"{HOUSE}::test_what_is_missing_in_redis_is_put_back_once",),
    ),
    Mutation(
        name="reconciler: waiting for nobody",
        cuts=(Cut("dispatch/reconcile.py", r"released \+= waiting\.release_free\(\)", "pass"),),
        tests=(f"{HOUSE}::test_a_run_that_waits_for_nobody_is_let_go",),
    ),
    Mutation(
        name="poll behind Redis",
        cuts=(
            Cut(
                "processes/source.py",
                r"return clock\.monotonic\(\) >= self\._poll_at",
                "return not self._uses_redis",
            ),
        ),
        tests=("tests/mutation/test_poll.py::test_what_redis_never_heard_of_is_polled_for",),
    ),
    Mutation(
        name="key uniqueness",
        cuts=(
            Cut(
                "intake/runs.py",
                r"dedupe=None if key is None else fingerprint\([^)]*\)",
                "dedupe=None",
            ),
        ),
        tests=("tests/integration/intake/test_submit.py::test_the_same_key_gives_the_same_run",),
    ),
    Mutation(
        name="locks of a silent transaction",
        cuts=(
            Cut("store/locking.py", r"with _session_ends_when_idle\(using\), ", "with "),
            Cut("store/locking.py", r'if using\.vendor == "postgresql" and', "if False and"),
        ),
        tests=(
            "tests/concurrency/test_silent_transactions.py"
            "::test_rows_of_a_silent_transaction_are_free_after_half_a_lease_and_nothing_is_written",
        ),
        databases=("postgres", "mysql"),
    ),
    Mutation(
        name="no burst after a pause",
        cuts=(Cut("store/registrations.py", r"\*\*_behind_pause\(row, now\),", ""),),
        tests=(
            "tests/integration/intake/test_schedules.py"
            "::test_resuming_never_fires_a_burst_and_says_what_passed",
        ),
    ),
    Mutation(
        name="a Run beside itself on one node",
        cuts=(Cut("processes/pool.py", r"if run in child\.held:", "if False:"),),
        tests=(f"{LEAVING}::test_a_run_is_not_begun_beside_itself",),
    ),
    Mutation(
        name="a report that comes twice",
        cuts=(Cut("processes/handle.py", r"if held is None or [^\n]*", "if held is None:"),),
        tests=(f"{LEAVING}::test_a_report_that_comes_twice_does_not_end_the_next_attempt",),
    ),
    Mutation(
        name="outcomes are waited for when leaving",
        cuts=(Cut("processes/leaving.py", r"max\(_LAST_SECONDS, self\._lease\)", "_LAST_SECONDS"),),
        tests=(f"{LEAVING}::test_a_slow_database_is_waited_for_while_the_node_is_trusted",),
    ),
    Mutation(
        name="children dead before the node signs off",
        cuts=(Cut("processes/service.py", r"nursery\.close\(\)", "pass"),),
        tests=(
            f"{LEAVING}::test_a_node_signs_off_when_its_children_are_dead_and_beats_until_then",
        ),
    ),
)
