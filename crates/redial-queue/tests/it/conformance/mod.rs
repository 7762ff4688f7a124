//! What every store does, whatever it is made of. Time is real, so jobs are due now or in hours, leases are over at once
//! or in hours, and nothing here waits for either.

mod claims;
mod dead;
mod enqueue;
mod filters;
mod keys;
mod leases;
mod model;
mod queues;
mod settle;
mod shop;
mod together;

pub(crate) use shop::{HOUR, Shop, fresh, job};

macro_rules! each {
    ($open:path: $($topic:ident { $($name:ident)+ })+) => {
        $($(
            #[tokio::test]
            async fn $name() {
                super::$topic::$name(&$open().await).await;
            }
        )+)+
    };
}

/// Everything, on the stores that a function opens.
macro_rules! conformance {
    ($open:path) => {
        each! {
            $open:
            enqueue {
                a_job_comes_back_as_it_was_put_in
                ids_rise_and_a_batch_keeps_its_order
                all_or_none
                ten_thousand_at_once
                times_at_both_ends_of_the_calendar
                odd_texts_and_bytes
                what_no_store_keeps_is_refused
            }
            claims {
                what_is_due_and_nothing_else
                older_ones_first
                higher_priorities_first
                whoever_waits_rises
                at_most_as_many_as_asked_for
                next_is_the_earliest_of_due_times_and_leases
                queues_do_not_see_each_other
                an_attempt_is_charged_when_it_is_claimed
                age_counts_from_the_first_claim
            }
            leases {
                a_lease_that_ran_out_is_claimed_again
                a_lost_job_keeps_its_place_in_the_order
                fences_rise
                a_stale_settlement_changes_nothing
                a_settlement_counts_once
                a_late_settlement_counts_if_nobody_has_claimed_since
                a_heartbeat_keeps_a_lease
                a_stale_heartbeat_says_so
                a_job_that_is_gone_is_stale
            }
            settle {
                done_is_gone_and_counted
                a_retry_waits_and_remembers
                a_postponed_attempt_was_none
                a_poll_is_one_until_it_was_tried
                dead_keeps_the_reason_and_the_last_outcome
                history_is_short
                outcomes_are_a_short_line
                reasons_are_a_short_line
                many_at_once_in_their_order
            }
            keys {
                one_of_a_key_at_a_time_in_order
                two_of_a_key_at_a_time
                as_many_of_a_key_as_there_are
                a_retry_holds_the_others
                a_dead_letter_does_not_hold_the_others
                a_removed_job_releases_the_next
                a_released_job_keeps_its_own_time
                keys_of_other_queues_and_none_do_not_matter
                keep
                refuse
                replace
                replace_after_a_failure_keeps_the_wait
                running_does_not_count_as_waiting
                replaces_the_newest
                a_batch_sees_itself
                a_redriven_letter_waits_for_its_key
                a_raised_bound_counts_for_what_comes_later
            }
            dead {
                redrive_starts_over_and_keeps_the_history
                redrive_apart
                redrive_touches_only_dead_letters
                the_most_dead_letters
                a_lower_bound_on_dead_letters_counts_at_once
                edit_then_redrive
                edit_does_not_touch_what_runs
                remove_does_not_touch_what_runs
                purge
            }
            filters {
                each_field_narrows
                pages
                most_bounds_removal_and_redrive
                older_counts_from_due_or_death
            }
            queues {
                a_paused_queue_claims_nothing
                settings_are_kept
                a_rate_bounds_claims
                a_rate_that_keeps_nothing_limits_nothing
                a_rate_of_zero_claims_nothing
                an_unknown_queue_is_empty
                queues_are_listed
                counts_of_each_state
                the_oldest_is_what_has_been_due_longest
                changed_ends_for_a_new_job
                changed_ends_for_what_happened_before
                changed_ends_for_a_release_a_redrive_and_a_resume
            }
            together {
                each_job_is_done_once
                one_of_a_key_at_a_time_among_many_workers
                enqueues_of_one_key_race
            }
            model {
                does_what_the_model_does
            }
        }
    };
}

pub(crate) mod postgres;
pub(crate) mod sqlite;
