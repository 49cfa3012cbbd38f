// SPDX-License-Identifier: Apache-2.0
// The cases that every store must pass. Include this inside a suite that has a
// backend_fixture as its fixture; there is no include guard on purpose.

// contract 11
BOOST_AUTO_TEST_CASE(grants_a_free_work_id_for_the_ttl) {
  auto granted = acquire("job", "ann", 10s);
  BOOST_TEST(granted.code == ec::none);
  BOOST_TEST(granted.number > 0);
  BOOST_TEST(granted.expires_us - granted.now_us == 10'000'000);
}

// contract 12, 23, 235
BOOST_AUTO_TEST_CASE(refuses_a_held_lease_and_names_its_holder) {
  auto tok = take("job", "ann", 10s);
  auto refused = acquire("job", "bob");
  BOOST_TEST(refused.code == ec::lease_held);
  BOOST_TEST(refused.holder_id == "ann");
  BOOST_TEST(refused.number == tok.number());
  auto left = refused.expires_us - refused.now_us;
  BOOST_TEST(left > 0);
  BOOST_TEST(left <= 10'000'000);
  BOOST_TEST(!refused.previous.state.has_value());
}

// contract 13, 14
BOOST_AUTO_TEST_CASE(refuses_the_same_holder_until_its_lease_is_over) {
  take("job", "ann", 10s);
  BOOST_TEST(acquire("job", "ann").code == ec::lease_held);
  pass(11s);
  BOOST_TEST(acquire("job", "ann").code == ec::none);
}

// contract 15, 53
BOOST_AUTO_TEST_CASE(takes_over_a_lapsed_lease_with_its_state) {
  auto first = take("job", "ann", 10s);
  BOOST_TEST(checkpoint(first, "half") == ec::none);
  pass(11s);
  auto second = acquire("job", "bob");
  BOOST_TEST(second.code == ec::none);
  BOOST_TEST(second.number > first.number());
  BOOST_TEST((second.previous == prior{"half", exit_mode::expired, "ann"}));
}

// contract 16, 70
BOOST_AUTO_TEST_CASE(grants_at_once_after_a_release_in_every_mode) {
  for (auto mode :
       {exit_mode::finished, exit_mode::abandoned, exit_mode::retired}) {
    auto tok = take("job");
    BOOST_TEST(release(tok, mode) == ec::none);
    auto next = acquire("job", "bob");
    BOOST_TEST(next.code == ec::none);
    BOOST_TEST(next.previous.exit == mode);
    BOOST_TEST(release(token_of("job", "bob", next)) == ec::none);
  }
}

// contract 17
BOOST_AUTO_TEST_CASE(grants_a_retired_work_id_and_says_that_it_is_retired) {
  BOOST_TEST(release(take("job"), exit_mode::retired) == ec::none);
  auto next = acquire("job", "bob");
  BOOST_TEST(next.code == ec::none);
  BOOST_TEST(next.previous.exit == exit_mode::retired);
}

// contract 18, 238
BOOST_AUTO_TEST_CASE(grants_a_contended_work_id_to_one_of_many) {
  constexpr int sessions = 4;
  constexpr int rounds = 25;
  std::vector<store_ptr> stores;
  for (int i = 0; i < sessions; ++i)
    stores.push_back(world.open());
  for (int round = 0; round < rounds; ++round) {
    auto work_id = "job" + std::to_string(round);
    std::vector<outcome> results(sessions);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < sessions; ++i)
      threads.emplace_back([&, i] {
        auto op = operation::acquire(work_id, "h" + std::to_string(i), 10s);
        results[i] = stores[i]->execute({&op, 1}).front();
      });
    for (auto& thread : threads)
      thread.join();
    auto won = std::count_if(results.begin(), results.end(),
                             [](auto& x) { return x.code == ec::none; });
    auto lost = std::count_if(results.begin(), results.end(), [](auto& x) {
      return x.code == ec::lease_held && !x.holder_id.empty();
    });
    BOOST_TEST(won == 1);
    BOOST_TEST(lost == sessions - 1);
  }
}

// contract 18
BOOST_AUTO_TEST_CASE(splits_contended_batches_without_giving_one_id_twice) {
  constexpr std::size_t count = 300;
  std::vector<std::vector<outcome>> results(3);
  std::vector<std::thread> threads;
  for (std::size_t s = 0; s < results.size(); ++s)
    threads.emplace_back([&, s] {
      auto session = world.open();
      std::vector<operation> ops;
      for (std::size_t i = 0; i < count; ++i) {
        // Each session in an order of its own.
        auto id = (i * (2 * s + 1) + s * 17) % count;
        ops.push_back(operation::acquire("job" + std::to_string(id),
                                         "h" + std::to_string(s), 10s));
      }
      results[s] = session->execute(ops);
    });
  for (auto& thread : threads)
    thread.join();
  std::size_t won = 0;
  std::set<std::int64_t> numbers;
  for (auto& batch : results) {
    BOOST_TEST(batch.size() == count);
    for (auto& x : batch) {
      BOOST_TEST((x.code == ec::none || x.code == ec::lease_held));
      if (x.code == ec::none) {
        ++won;
        numbers.insert(x.number);
      }
    }
  }
  // With ids used twice in a batch, a session may also lose against itself.
  BOOST_TEST(won == count);
  BOOST_TEST(numbers.size() == count);
}

// contract 20, 217
BOOST_AUTO_TEST_CASE(moves_the_exit_to_the_next_holder_and_clears_it) {
  BOOST_TEST(release(take("job", "ann"), exit_mode::abandoned) == ec::none);
  BOOST_TEST(row_of("job")->exit == exit_mode::abandoned);
  BOOST_TEST(row_of("job")->previous_exit == exit_mode::none);
  take("job", "bob");
  auto row = row_of("job");
  BOOST_TEST(row->exit == exit_mode::none);
  BOOST_TEST(row->previous_exit == exit_mode::abandoned);
  BOOST_TEST(row->previous_holder_id == "ann");
}

// contract 10, 19, 22
BOOST_AUTO_TEST_CASE(refuses_unusable_ids_without_leaving_a_row) {
  std::vector<std::string> bad{"", std::string{"a\0b", 3}, "\xff\xfe",
                               std::string(513, 'x')};
  for (auto& id : bad) {
    BOOST_TEST(acquire(id, "ann").code == ec::invalid_argument);
    BOOST_TEST(acquire("job", id).code == ec::invalid_argument);
  }
  BOOST_TEST(ids({}).empty());
}

BOOST_AUTO_TEST_CASE(tells_apart_ids_that_differ_in_one_byte) {
  std::vector<std::string> odd{
    "A",
    "a",
    "a ",
    " a",
    "a\t",
    "a\n",
    "\x01",
    "ä",
    "a\xcc\x88", // the same letter, composed otherwise
    "ß",
    "ss",
    "'; drop table leasehold_leases; --",
    "{\"a\",NULL}",
    "NULL",
    "null",
    "a:b :c ::d",
    "\\x00",
    "\\",
    "\"",
    "%_",
    "\xF0\x9F\x94\x91",
    std::string(512, 'x'),
    std::string(511, 'x') + "y",
  };
  for (auto& id : odd)
    BOOST_TEST(acquire(id, id).code == ec::none);
  for (auto& id : odd)
    BOOST_TEST(acquire(id, "other").holder_id == id);
  auto sorted = odd;
  std::sort(sorted.begin(), sorted.end());
  BOOST_TEST(ids({}) == sorted, boost::test_tools::per_element());
}

// contract 37, 219
BOOST_AUTO_TEST_CASE(a_first_holder_reads_nothing) {
  auto tok = take("job");
  BOOST_TEST((prior_of(tok) == prior{}));
  pass(11s);
  auto next = acquire("job", "bob");
  BOOST_TEST((next.previous == prior{std::nullopt, exit_mode::expired, "ann"}));
}

// contract 38, 42, 43, 47, 54
BOOST_AUTO_TEST_CASE(the_prior_record_stays_but_for_the_state) {
  auto first = take("job", "ann");
  BOOST_TEST(checkpoint(first, "one") == ec::none);
  BOOST_TEST(release(first, exit_mode::abandoned) == ec::none);
  auto tok = take("job", "bob");
  prior expected{"one", exit_mode::abandoned, "ann"};
  BOOST_TEST((prior_of(tok) == expected));
  BOOST_TEST(renew(tok) == ec::none);
  BOOST_TEST((prior_of(tok) == expected));
  BOOST_TEST(checkpoint(tok, "two") == ec::none);
  expected.state = "two";
  BOOST_TEST((prior_of(tok) == expected));
}

// contract 39, 49
BOOST_AUTO_TEST_CASE(an_empty_or_missing_state_clears_and_extends) {
  auto tok = take("job");
  for (auto& none : {state_bytes{}, state_bytes{""}}) {
    BOOST_TEST(checkpoint(tok, "something") == ec::none);
    pass(6s);
    BOOST_TEST(checkpoint(tok, none) == ec::none);
    BOOST_TEST(!prior_of(tok).state.has_value());
    BOOST_TEST(!row_of("job")->state_bytes.has_value());
    pass(6s);
    BOOST_TEST(acquire("job", "bob").code == ec::lease_held);
  }
}

// contract 40, 41, 46
BOOST_AUTO_TEST_CASE(reading_with_a_foreign_token_is_fenced_and_empty) {
  auto tok = take("job");
  BOOST_TEST(checkpoint(tok, "secret") == ec::none);
  for (auto& other :
       {with_number(tok, tok.number() + 1), with_number(tok, tok.number() - 1),
        with_holder(tok, "bob")}) {
    auto result = read(other);
    BOOST_TEST(result.code == ec::fenced);
    BOOST_TEST((result.previous == prior{}));
  }
  BOOST_TEST(forget(tok) == ec::none);
  BOOST_TEST(read(tok).code == ec::fenced);
}

// contract 44, 55
BOOST_AUTO_TEST_CASE(a_callers_buffers_stay_its_own) {
  auto tok = take("job");
  auto op = operation::checkpoint(tok, 10s, "original");
  BOOST_TEST(run(op).code == ec::none);
  op.state->assign("scribble");
  auto copy = prior_of(tok);
  copy.state->assign("scribble");
  BOOST_TEST(prior_of(tok).state.value() == "original");
}

// contract 45
BOOST_AUTO_TEST_CASE(reading_ignores_expiry_and_does_not_extend) {
  auto tok = take("job", "ann", 10s);
  BOOST_TEST(checkpoint(tok, "x") == ec::none);
  pass(11s);
  BOOST_TEST(prior_of(tok).state.value() == "x");
  BOOST_TEST(renew(tok) == ec::lease_expired);
  auto next = take("job", "bob");
  BOOST_TEST(release(next) == ec::none);
  BOOST_TEST(prior_of(next).state.value() == "x");
}

// contract 48, 237
BOOST_AUTO_TEST_CASE(a_checkpoint_stores_and_extends_in_one_step) {
  auto tok = take("job", "ann", 10s);
  pass(6s);
  auto result = run(operation::checkpoint(tok, 10s, "x"));
  BOOST_TEST(result.code == ec::none);
  BOOST_TEST(result.expires_us - result.now_us == 10'000'000);
  auto row = row_of("job");
  BOOST_TEST(row->expires_us == result.expires_us);
  BOOST_TEST(row->updated_us == result.now_us);
  BOOST_TEST(row->state.value() == "x");
}

// contract 50, 51, 80
BOOST_AUTO_TEST_CASE(a_foreign_token_changes_nothing) {
  auto tok = take("job");
  BOOST_TEST(checkpoint(tok, "x") == ec::none);
  auto before = row_of("job");
  std::vector<token> foreign{
    with_number(tok, tok.number() + 1), with_number(tok, tok.number() - 1),
    with_holder(tok, "bob"), with_holder(tok, "ANN"),
    internal::token_access::make("other", "ann", tok.number(), 0)};
  for (auto& other : foreign) {
    BOOST_TEST(checkpoint(other, "y") == ec::fenced);
    BOOST_TEST(renew(other, 60s) == ec::fenced);
    BOOST_TEST(release(other) == ec::fenced);
    BOOST_TEST(forget(other) == ec::fenced);
  }
  auto after = row_of("job");
  BOOST_TEST(after->state.value() == "x");
  BOOST_TEST(after->expires_us == before->expires_us);
  BOOST_TEST(after->updated_us == before->updated_us);
  BOOST_TEST(after->exit == exit_mode::none);
}

// contract 52
BOOST_AUTO_TEST_CASE(a_checkpoint_after_the_release_changes_nothing) {
  auto tok = take("job");
  BOOST_TEST(checkpoint(tok, "x") == ec::none);
  BOOST_TEST(release(tok, exit_mode::finished) == ec::none);
  auto before = row_of("job");
  BOOST_TEST(checkpoint(tok, "y") == ec::lease_expired);
  auto after = row_of("job");
  BOOST_TEST(after->state.value() == "x");
  BOOST_TEST(after->exit == exit_mode::finished);
  BOOST_TEST(after->expires_us == before->expires_us);
}

// contract 53
BOOST_AUTO_TEST_CASE(a_checkpoint_revives_a_lapsed_lease_that_nobody_took) {
  auto tok = take("job", "ann", 10s);
  pass(11s);
  BOOST_TEST(checkpoint(tok, "late") == ec::none);
  BOOST_TEST(acquire("job", "bob").code == ec::lease_held);
  BOOST_TEST(renew(tok) == ec::none);
}

BOOST_AUTO_TEST_CASE(a_large_checkpoint_follows_the_same_rules) {
  std::string large(100'000, 'z');
  auto tok = take("job", "ann", 10s);
  BOOST_TEST(checkpoint(with_number(tok, tok.number() + 1), large)
             == ec::fenced);
  pass(11s);
  auto result = run(operation::checkpoint(tok, 10s, large, 2));
  BOOST_TEST(result.code == ec::none);
  BOOST_TEST(result.expires_us - result.now_us == 10'000'000);
  BOOST_TEST(run(operation::checkpoint(tok, 10s, large + "old", 1)).code
             == ec::none);
  BOOST_TEST((prior_of(tok).state.value() == large));
  BOOST_TEST(release(tok) == ec::none);
  BOOST_TEST(checkpoint(tok, large + "late") == ec::lease_expired);
  auto next = acquire("job", "bob");
  BOOST_TEST((next.previous.state.value() == large));
}

// contract 57, 237
BOOST_AUTO_TEST_CASE(a_renewal_extends_and_leaves_the_state_alone) {
  auto tok = take("job", "ann", 10s);
  BOOST_TEST(checkpoint(tok, "x") == ec::none);
  pass(6s);
  auto result = run(operation::renew(tok, 10s));
  BOOST_TEST(result.code == ec::none);
  BOOST_TEST(result.expires_us - result.now_us == 10'000'000);
  auto row = row_of("job");
  BOOST_TEST(row->expires_us == result.expires_us);
  BOOST_TEST(row->updated_us == result.now_us);
  BOOST_TEST(row->state.value() == "x");
  pass(6s);
  BOOST_TEST(renew(tok) == ec::none);
}

BOOST_AUTO_TEST_CASE(an_expiry_never_moves_backwards) {
  auto tok = take("job", "ann", 60s);
  auto before = row_of("job")->expires_us;
  BOOST_TEST(run(operation::renew(tok, 1s)).expires_us == before);
  BOOST_TEST(run(operation::checkpoint(tok, 1s, "x")).expires_us == before);
  BOOST_TEST(row_of("job")->expires_us == before);
}

// contract 58-61
BOOST_AUTO_TEST_CASE(a_renewal_never_revives_and_looks_at_the_token_first) {
  auto tok = take("job", "ann", 10s);
  pass(11s);
  BOOST_TEST(renew(tok) == ec::lease_expired);
  BOOST_TEST(renew(with_number(tok, tok.number() + 1)) == ec::fenced);
  BOOST_TEST(renew(with_holder(tok, "bob")) == ec::fenced);
  auto next = take("job", "bob");
  BOOST_TEST(renew(tok) == ec::fenced);
  BOOST_TEST(release(next) == ec::none);
  BOOST_TEST(renew(next) == ec::lease_expired);
}

// contract 62, 63
BOOST_AUTO_TEST_CASE(a_release_must_declare_an_exit) {
  auto tok = take("job");
  for (auto mode :
       {exit_mode::none, exit_mode::expired, static_cast<exit_mode>(77)}) {
    BOOST_TEST(release(tok, mode) == ec::invalid_exit_mode);
    BOOST_TEST(release(with_holder(tok, "bob"), mode) == ec::invalid_exit_mode);
    auto empty = operation::release(token{}, mode);
    BOOST_TEST(run(empty).code == ec::invalid_exit_mode);
  }
  BOOST_TEST(renew(tok) == ec::none);
}

// contract 64
BOOST_AUTO_TEST_CASE(a_release_keeps_the_row_and_ends_the_lease_in_the_past) {
  auto tok = take("job");
  BOOST_TEST(checkpoint(tok, "x") == ec::none);
  auto result = run(operation::release(tok, exit_mode::finished));
  BOOST_TEST(result.code == ec::none);
  BOOST_TEST(result.now_us - result.expires_us >= 1000);
  auto row = row_of("job");
  BOOST_TEST(row->exit == exit_mode::finished);
  BOOST_TEST(row->expires_us == result.expires_us);
  BOOST_TEST(row->updated_us == result.now_us);
  BOOST_TEST(row->state.value() == "x");
  BOOST_TEST(row->number == tok.number());
}

// contract 65-67
BOOST_AUTO_TEST_CASE(a_late_release_records_nothing) {
  auto tok = take("job", "ann", 10s);
  pass(11s);
  for (auto mode :
       {exit_mode::finished, exit_mode::abandoned, exit_mode::retired})
    BOOST_TEST(release(tok, mode) == ec::lease_expired);
  BOOST_TEST(release(with_number(tok, tok.number() + 1)) == ec::fenced);
  auto next = acquire("job", "bob");
  BOOST_TEST(next.previous.exit == exit_mode::expired);
  BOOST_TEST(release(tok) == ec::fenced);
}

// contract 68
BOOST_AUTO_TEST_CASE(the_first_of_two_releases_stands) {
  auto tok = take("job");
  BOOST_TEST(release(tok, exit_mode::finished) == ec::none);
  BOOST_TEST(release(tok, exit_mode::retired) == ec::lease_expired);
  BOOST_TEST(acquire("job", "bob").previous.exit == exit_mode::finished);
}

// contract 71, 75
BOOST_AUTO_TEST_CASE(forget_deletes_a_held_a_lapsed_and_a_released_row) {
  auto held = take("held");
  auto lapsed = take("lapsed", "ann", 1s);
  pass(2s);
  auto released = take("released");
  BOOST_TEST(release(released) == ec::none);
  for (auto& tok : {held, lapsed, released}) {
    BOOST_TEST(forget(tok) == ec::none);
    BOOST_TEST(acquire(tok.work_id(), "bob").code == ec::none);
  }
}

// contract 72-74, 76
BOOST_AUTO_TEST_CASE(what_is_forgotten_starts_from_scratch) {
  auto tok = take("job");
  BOOST_TEST(checkpoint(tok, "x") == ec::none);
  BOOST_TEST(forget(with_number(tok, tok.number() + 1)) == ec::fenced);
  BOOST_TEST(forget(tok) == ec::none);
  BOOST_TEST(forget(tok) == ec::fenced);
  auto next = acquire("job", "bob");
  BOOST_TEST((next.previous == prior{}));
  BOOST_TEST(next.number > tok.number());
  BOOST_TEST(checkpoint(tok, "y") == ec::fenced);
  BOOST_TEST(renew(tok) == ec::fenced);
  BOOST_TEST(release(tok) == ec::fenced);
  BOOST_TEST(read(tok).code == ec::fenced);
  BOOST_TEST(forget(tok) == ec::fenced);
}

// contract 76, 77, 81
BOOST_AUTO_TEST_CASE(numbers_grow_over_all_work_ids) {
  std::int64_t last = 0;
  for (int round = 0; round < 5; ++round) {
    for (auto id : {"a", "b", "c"}) {
      auto granted = acquire(id, "ann", 10s);
      BOOST_TEST(granted.code == ec::none);
      BOOST_TEST(granted.number > last);
      last = granted.number;
      acquire(id, "bob");
      auto tok = token_of(id, "ann", granted);
      BOOST_TEST((round % 2 == 0 ? release(tok) : forget(tok)) == ec::none);
    }
  }
}

// contract 82
BOOST_AUTO_TEST_CASE(numbers_beyond_double_precision_are_compared_exactly) {
  auto tok = take("job");
  for (auto number : {tok.number() + (std::int64_t{1} << 53),
                      tok.number() + (std::int64_t{1} << 32),
                      std::int64_t{9'007'199'254'740'993},
                      std::numeric_limits<std::int64_t>::max(),
                      std::numeric_limits<std::int64_t>::min()})
    BOOST_TEST(renew(with_number(tok, number)) == ec::fenced);
  BOOST_TEST(renew(tok) == ec::none);
}

// contract 83, 85
BOOST_AUTO_TEST_CASE(expiry_follows_the_time_of_the_store) {
  auto tok = take("job", "ann", 10s);
  pass(9s);
  BOOST_TEST(acquire("job", "bob").code == ec::lease_held);
  BOOST_TEST(renew(tok, 10s) == ec::none);
  pass(9s);
  BOOST_TEST(acquire("job", "bob").code == ec::lease_held);
  pass(2s);
  BOOST_TEST(acquire("job", "bob").code == ec::none);
}

// contract 84
BOOST_AUTO_TEST_CASE(at_the_very_moment_of_expiry_nobody_moves) {
  if constexpr (exact_time) {
    auto tok = take("job", "ann", 10s);
    pass(10s);
    BOOST_TEST(acquire("job", "bob").code == ec::lease_held);
    BOOST_TEST(renew(tok) == ec::lease_expired);
    BOOST_TEST(release(tok) == ec::lease_expired);
    pass(1us);
    BOOST_TEST(acquire("job", "bob").code == ec::none);
  }
}

// contract 86
BOOST_AUTO_TEST_CASE(a_ttl_of_zero_or_less_makes_an_expired_lease) {
  auto negative = acquire("a", "ann", -1s);
  BOOST_TEST(negative.code == ec::none);
  BOOST_TEST(negative.expires_us - negative.now_us == -1'000'000);
  auto next = acquire("a", "bob");
  BOOST_TEST(next.code == ec::none);
  BOOST_TEST(next.previous.exit == exit_mode::expired);
  auto tok = take("b", "ann", 0s);
  pass(1ms);
  BOOST_TEST(renew(tok) == ec::lease_expired);
  BOOST_TEST(acquire("b", "bob").code == ec::none);
}

BOOST_AUTO_TEST_CASE(a_ttl_of_100_years_is_kept_to_the_microsecond) {
  auto ttl = max_duration - 1us;
  auto granted = acquire("job", "ann", ttl);
  BOOST_TEST(granted.expires_us - granted.now_us == ttl.count());
  BOOST_TEST(acquire("job", "bob").code == ec::lease_held);
  BOOST_TEST(acquire("other", "ann", max_duration + 1us).code
             == ec::invalid_argument);
}

// contract 218
BOOST_AUTO_TEST_CASE(each_of_three_holders_reads_its_own_predecessor) {
  // released, then crashed
  BOOST_TEST(release(take("a", "one"), exit_mode::abandoned) == ec::none);
  BOOST_TEST((prior_of(take("a", "two"))
              == prior{std::nullopt, exit_mode::abandoned, "one"}));
  pass(11s);
  BOOST_TEST((prior_of(take("a", "three"))
              == prior{std::nullopt, exit_mode::expired, "two"}));
  // crashed, then released
  take("b", "one");
  pass(11s);
  auto tok = take("b", "two");
  BOOST_TEST((prior_of(tok) == prior{std::nullopt, exit_mode::expired, "one"}));
  BOOST_TEST(release(tok, exit_mode::finished) == ec::none);
  BOOST_TEST((prior_of(take("b", "three"))
              == prior{std::nullopt, exit_mode::finished, "two"}));
  // released twice
  BOOST_TEST(release(take("c", "one"), exit_mode::retired) == ec::none);
  BOOST_TEST(release(take("c", "two"), exit_mode::finished) == ec::none);
  BOOST_TEST((prior_of(take("c", "three"))
              == prior{std::nullopt, exit_mode::finished, "two"}));
}

// contract 224-226, 229
BOOST_AUTO_TEST_CASE(a_sweep_takes_old_retired_rows_and_lapsed_ones_on_demand) {
  auto prepare = [this] {
    BOOST_TEST(release(take("retired"), exit_mode::retired) == ec::none);
    BOOST_TEST(release(take("finished"), exit_mode::finished) == ec::none);
    BOOST_TEST(release(take("abandoned"), exit_mode::abandoned) == ec::none);
    take("lapsed", "ann", 1s);
    take("held", "ann", 3600s);
    pass(100s);
  };
  prepare();
  BOOST_TEST(sweep(50s) == 1u);
  std::vector<std::string> rest{"abandoned", "finished", "held", "lapsed"};
  BOOST_TEST(ids({}) == rest, boost::test_tools::per_element());
  BOOST_TEST(sweep(50s, true) == 1u);
  rest.pop_back();
  BOOST_TEST(ids({}) == rest, boost::test_tools::per_element());
  BOOST_TEST(sweep(50s, true) == 0u);
}

// contract 227, 228
BOOST_AUTO_TEST_CASE(a_sweep_leaves_what_is_not_older_than_the_retention) {
  BOOST_TEST(release(take("job"), exit_mode::retired) == ec::none);
  if constexpr (exact_time) {
    pass(60s);
    BOOST_TEST(sweep(60s) == 0u);
    pass(1us);
    BOOST_TEST(sweep(60s) == 1u);
  } else {
    pass(50s);
    BOOST_TEST(sweep(60s) == 0u);
    BOOST_TEST(row_of("job")->exit == exit_mode::retired);
    pass(11s);
    BOOST_TEST(sweep(60s) == 1u);
  }
}

// contract 231
BOOST_AUTO_TEST_CASE(a_sweep_does_not_ask_how_long_leases_last) {
  for (auto ttl : {duration{10s}, duration{10h}}) {
    auto tok = take("job", "ann", ttl);
    BOOST_TEST(release(tok, exit_mode::retired) == ec::none);
    pass(30s);
    BOOST_TEST(sweep(1min) == 0u);
    BOOST_TEST(sweep(20s) == 1u);
  }
}

// contract 230
BOOST_AUTO_TEST_CASE(what_is_swept_starts_from_scratch) {
  auto tok = take("job", "ann", 1s);
  BOOST_TEST(checkpoint(tok, "x", 1s) == ec::none);
  pass(100s);
  BOOST_TEST(sweep(50s, true) == 1u);
  BOOST_TEST(checkpoint(tok, "y") == ec::fenced);
  auto next = acquire("job", "bob");
  BOOST_TEST((next.previous == prior{}));
  BOOST_TEST(next.number > tok.number());
}

BOOST_AUTO_TEST_CASE(a_sweep_of_thousands_of_rows_takes_all_of_them) {
  constexpr std::size_t count = 2300;
  std::vector<operation> ops;
  for (std::size_t i = 0; i < count; ++i)
    ops.push_back(operation::acquire("job" + std::to_string(i), "ann", 1s));
  for (auto& x : st->execute(ops))
    BOOST_TEST_REQUIRE(x.code == ec::none);
  take("kept", "ann", 3600s);
  pass(100s);
  BOOST_TEST(sweep(50s, true) == count);
  BOOST_TEST(ids({}).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_repeated_acquire_gets_the_same_grant) {
  auto first = take("job", "ann");
  BOOST_TEST(checkpoint(first, "x") == ec::none);
  BOOST_TEST(release(first, exit_mode::abandoned) == ec::none);
  auto granted = acquire("job", "bob", 10s, 4711);
  auto again = acquire("job", "bob", 10s, 4711);
  BOOST_TEST(again.code == ec::none);
  BOOST_TEST(again.number == granted.number);
  BOOST_TEST(again.expires_us == granted.expires_us);
  BOOST_TEST((again.previous == prior{"x", exit_mode::abandoned, "ann"}));
  BOOST_TEST(acquire("job", "bob", 10s, 4712).code == ec::lease_held);
  BOOST_TEST(acquire("job", "bob", 10s, 0).code == ec::lease_held);
  BOOST_TEST(release(token_of("job", "bob", granted)) == ec::none);
  auto other = acquire("job", "bob", 10s, 4711);
  BOOST_TEST(other.number > granted.number);
}

BOOST_AUTO_TEST_CASE(a_repeated_acquire_reads_a_large_state_too) {
  std::string large(1'000'000, 'q');
  auto first = take("job", "ann");
  BOOST_TEST(checkpoint(first, large) == ec::none);
  pass(11s);
  BOOST_TEST((acquire("job", "bob", 10s, 1).previous.state.value() == large));
  BOOST_TEST((acquire("job", "bob", 10s, 1).previous.state.value() == large));
}

BOOST_AUTO_TEST_CASE(a_delayed_checkpoint_does_not_replace_a_newer_one) {
  auto tok = take("job");
  auto write = [&](const char* state, std::int64_t sequence) {
    return code(operation::checkpoint(tok, 10s, state, sequence));
  };
  BOOST_TEST(write("one", 1) == ec::none);
  BOOST_TEST(write("three", 3) == ec::none);
  BOOST_TEST(write("two", 2) == ec::none);
  BOOST_TEST(write("three again", 3) == ec::none);
  BOOST_TEST(prior_of(tok).state.value() == "three");
  pass(6s);
  BOOST_TEST(write("two", 2) == ec::none);
  pass(6s);
  BOOST_TEST(renew(tok) == ec::none);
  BOOST_TEST(write("unnumbered", 0) == ec::none);
  BOOST_TEST(prior_of(tok).state.value() == "unnumbered");
  BOOST_TEST(write("two", 2) == ec::none);
  BOOST_TEST(prior_of(tok).state.value() == "unnumbered");
}

BOOST_AUTO_TEST_CASE(sequences_start_anew_with_each_holder) {
  auto first = take("job", "ann");
  BOOST_TEST(code(operation::checkpoint(first, 10s, "x", 9)) == ec::none);
  BOOST_TEST(release(first) == ec::none);
  auto tok = take("job", "bob");
  BOOST_TEST(code(operation::checkpoint(tok, 10s, "y", 1)) == ec::none);
  BOOST_TEST(prior_of(tok).state.value() == "y");
}

BOOST_AUTO_TEST_CASE(a_release_that_repeats_itself_is_ok) {
  auto tok = take("job");
  BOOST_TEST(release(tok, exit_mode::retired) == ec::none);
  auto again
    = [&](exit_mode mode) { return code(operation::release(tok, mode, true)); };
  BOOST_TEST(again(exit_mode::retired) == ec::none);
  BOOST_TEST(again(exit_mode::finished) == ec::lease_expired);
  take("job", "bob");
  BOOST_TEST(again(exit_mode::retired) == ec::fenced);
  auto fresh = take("other");
  BOOST_TEST(code(operation::release(fresh, exit_mode::finished, true))
             == ec::none);
  BOOST_TEST(acquire("other", "bob").code == ec::none);
}

BOOST_AUTO_TEST_CASE(any_bytes_come_back_as_they_were) {
  std::string all;
  for (int i = 0; i < 256; ++i)
    all += static_cast<char>(i);
  auto tok = take("job");
  for (auto& state :
       {all, std::string(1, '\0'), std::string(5000, '\0'), all + all + "\0x",
        std::string{"'quoted' \\x41 :name $1 {}"}, std::string{"\xff\xfe"}}) {
    BOOST_TEST(checkpoint(tok, state) == ec::none);
    BOOST_TEST((prior_of(tok).state.value() == state));
    BOOST_TEST((row_of("job")->state.value() == state));
    BOOST_TEST(row_of("job")->state_bytes.value() == state.size());
  }
}

BOOST_AUTO_TEST_CASE(states_up_to_the_limit_are_stored_and_no_more) {
  auto tok = take("job", "ann", 60s);
  for (auto size : {std::size_t{4096}, std::size_t{4097}, std::size_t{65'536},
                    std::size_t{65'537}, std::size_t{5} * 1024 * 1024,
                    default_max_state_bytes}) {
    std::string state(size, '\0');
    for (std::size_t i = 0; i < size; ++i)
      state[i] = static_cast<char>((i * 2654435761u) >> 13);
    BOOST_TEST(checkpoint(tok, state, 60s) == ec::none);
    BOOST_TEST((prior_of(tok).state.value() == state));
  }
  auto before = row_of("job")->state;
  BOOST_TEST(checkpoint(tok, std::string(default_max_state_bytes + 1, 'x'))
             == ec::state_too_large);
  BOOST_TEST((row_of("job")->state == before));
}

BOOST_AUTO_TEST_CASE(an_empty_batch_has_no_outcomes) {
  BOOST_TEST(st->execute({}).empty());
}

BOOST_AUTO_TEST_CASE(operations_on_one_id_behave_as_if_run_in_order) {
  auto tok = take("job", "ann");
  std::vector<operation> ops{
    operation::checkpoint(tok, 10s, "x"),
    operation::acquire("job", "bob", 10s),
    operation::renew(tok, 20s),
    operation::read(tok),
    operation::acquire("other", "bob", 10s),
    operation::release(tok, exit_mode::abandoned),
    operation::renew(tok, 10s),
    operation::acquire("job", "cid", 10s),
    operation::acquire("job", "dan", 10s),
    operation::read(tok),
    operation::acquire("", "ann", 10s),
    operation::forget(tok),
  };
  auto results = st->execute(ops);
  BOOST_TEST_REQUIRE(results.size() == ops.size());
  std::vector<ec> expected{ec::none,
                           ec::lease_held,
                           ec::none,
                           ec::none,
                           ec::none,
                           ec::none,
                           ec::lease_expired,
                           ec::none,
                           ec::lease_held,
                           ec::fenced,
                           ec::invalid_argument,
                           ec::fenced};
  for (std::size_t i = 0; i < ops.size(); ++i)
    BOOST_TEST(results[i].code == expected[i], "operation " << i);
  BOOST_TEST(results[3].previous.state.value() == "x");
  BOOST_TEST((results[7].previous == prior{"x", exit_mode::abandoned, "ann"}));
  BOOST_TEST(results[8].holder_id == "cid");
}

BOOST_AUTO_TEST_CASE(among_many_held_the_free_and_the_repeated_are_found) {
  std::vector<operation> ops;
  for (int i = 0; i < 600; ++i) {
    auto id = "job-" + std::to_string(i);
    // Of these, every hundredth is asked for again by its holder.
    ops.push_back(operation::acquire(id, "ann", 60s, i % 100 == 0 ? i + 1 : 0));
  }
  std::vector<std::int64_t> numbers;
  for (auto& got : st->execute(ops)) {
    BOOST_TEST_REQUIRE(got.code == ec::none);
    numbers.push_back(got.number);
  }
  for (int i = 0; i < 600; ++i)
    if (i % 100 != 0)
      ops[static_cast<std::size_t>(i)].holder_id = "bob";
  ops.push_back(operation::acquire("free", "bob", 60s));
  auto got = st->execute(ops);
  for (std::size_t i = 0; i < 600; ++i) {
    if (i % 100 == 0) {
      BOOST_TEST(got[i].code == ec::none);
    } else {
      BOOST_TEST(got[i].code == ec::lease_held);
      BOOST_TEST(got[i].holder_id == "ann");
      BOOST_TEST(got[i].expires_us > got[i].now_us);
    }
    BOOST_TEST(got[i].number == numbers[i]);
  }
  BOOST_TEST(got[600].code == ec::none);
}

BOOST_AUTO_TEST_CASE(a_batch_of_a_thousand_answers_each_row_in_its_place) {
  constexpr std::size_t count = 1000;
  auto id
    = [](std::size_t i) { return "job" + std::to_string((i * 7919) % count); };
  std::vector<operation> ops;
  for (std::size_t i = 0; i < count; ++i)
    ops.push_back(operation::acquire(id(i), "h" + std::to_string(i), 60s));
  auto granted = st->execute(ops);
  BOOST_TEST_REQUIRE(granted.size() == count);
  std::vector<operation> next;
  std::vector<token> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    BOOST_TEST_REQUIRE(granted[i].code == ec::none);
    tokens.push_back(token_of(id(i), "h" + std::to_string(i), granted[i]));
    // Every tenth is somebody else's.
    auto tok = i % 10 == 0 ? with_holder(tokens[i], "thief") : tokens[i];
    switch (i % 3) {
      case 0:
        next.push_back(operation::renew(tok, 60s));
        break;
      case 1:
        next.push_back(
          operation::checkpoint(tok, 60s, "state" + std::to_string(i)));
        break;
      default:
        next.push_back(operation::read(tok));
    }
  }
  auto results = st->execute(next);
  for (std::size_t i = 0; i < count; ++i)
    BOOST_TEST((results[i].code == (i % 10 == 0 ? ec::fenced : ec::none)));
  for (std::size_t i = 1; i < count; i += 30)
    if (i % 10 != 0)
      BOOST_TEST(prior_of(tokens[i]).state.value()
                 == "state" + std::to_string(i));
}

BOOST_AUTO_TEST_CASE(a_list_is_in_byte_order_and_comes_in_pages) {
  for (auto name : {"b/2", "a", "b/1", "c", "b/3", "b", "B"})
    take(name);
  std::vector<std::string> all{"B", "a", "b", "b/1", "b/2", "b/3", "c"};
  BOOST_TEST(ids({}) == all, boost::test_tools::per_element());
  std::vector<std::string> paged;
  backend::list_query query;
  query.limit = 2;
  for (;;) {
    auto page = ids(query);
    BOOST_TEST(page.size() <= 2u);
    if (page.empty())
      break;
    paged.insert(paged.end(), page.begin(), page.end());
    query.after = page.back();
  }
  BOOST_TEST(paged == all, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_list_selects_by_prefix_and_by_work_id) {
  for (auto name :
       {"job", "job/1", "job/2", "job0", "jo", "jö", "jo\xf4\x8f\xbf\xbf"})
    take(name);
  backend::list_query query;
  query.prefix = "job/";
  std::vector<std::string> expected{"job/1", "job/2"};
  BOOST_TEST(ids(query) == expected, boost::test_tools::per_element());
  query.after = "job/1";
  expected.erase(expected.begin());
  BOOST_TEST(ids(query) == expected, boost::test_tools::per_element());
  query.after = "z";
  BOOST_TEST(ids(query).empty());
  query = {};
  query.prefix = "j\xc3"; // half a letter
  expected = {"jö"};
  BOOST_TEST(ids(query) == expected, boost::test_tools::per_element());
  query.prefix = "jo\xf4\x8f\xbf\xbf";
  BOOST_TEST(ids(query).size() == 1u);
  query = {};
  query.work_id = "job";
  expected = {"job"};
  BOOST_TEST(ids(query) == expected, boost::test_tools::per_element());
  query.work_id = "nothing";
  BOOST_TEST(ids(query).empty());
  query = {};
  query.prefix = "%";
  BOOST_TEST(ids(query).empty());
}

BOOST_AUTO_TEST_CASE(a_list_carries_states_on_demand) {
  std::string large(200'000, 'l');
  BOOST_TEST(checkpoint(take("large"), large) == ec::none);
  BOOST_TEST(checkpoint(take("small"), "s") == ec::none);
  take("void");
  backend::list_query query;
  auto found = st->list(query);
  BOOST_TEST_REQUIRE(found.rows.size() == 3u);
  BOOST_TEST(found.now_us > 0);
  BOOST_TEST(found.rows[0].state_bytes.value() == large.size());
  BOOST_TEST(!found.rows[0].state.has_value());
  BOOST_TEST(!found.rows[2].state_bytes.has_value());
  query.with_state = true;
  found = st->list(query);
  BOOST_TEST_REQUIRE(found.rows.size() == 3u);
  BOOST_TEST((found.rows[0].state.value() == large));
  BOOST_TEST(found.rows[1].state.value() == "s");
  BOOST_TEST(!found.rows[2].state.has_value());
}

BOOST_AUTO_TEST_CASE(another_session_sees_what_was_done) {
  auto tok = take("job");
  BOOST_TEST(checkpoint(tok, "x") == ec::none);
  auto other = world.open();
  auto result = run(*other, operation::read(tok));
  BOOST_TEST(result.previous.state.value() == "x");
  BOOST_TEST(run(*other, operation::acquire("job", "bob", 10s)).code
             == ec::lease_held);
  BOOST_TEST(run(*other, operation::release(tok, exit_mode::finished)).code
             == ec::none);
  BOOST_TEST(acquire("job", "bob").code == ec::none);
}
