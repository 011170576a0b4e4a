// SPDX-License-Identifier: MIT
// The rows of a run as fla.compare/1.
#include "perf/evidence/comparison.h"

#include <cmath>

#include "perf/compare/compare_results.h"
#include "perf/hardware/hardware_json.h"
#include "perf/write_file.h"

namespace fla::perf::evidence {
namespace {

ComparedSide side_of(const host::Tree& tree, const Plan& plan, const Hardware& card) {
  return {.name = tree.ref,
          .commit = tree.commit,
          .dirty = tree.dirty,
          .created = plan.created,
          .hardware_id = card.id()};
}

RowComparison row_of(const RowOutcome& outcome, const Human& human) {
  RowComparison row;
  row.key = outcome.key;
  row.mode = outcome.mode;
  row.backend = outcome.backend;
  row.coverage = outcome.coverage;
  row.base_s = outcome.base.median_s;
  row.head_s = outcome.head.median_s;
  row.base_blocks_s = outcome.base.blocks_s;
  row.head_blocks_s = outcome.head.blocks_s;
  const SideOutcome& head = outcome.head;
  if (head.tokens_per_s && head.median_s) {
    row.tokens = std::llround(*head.tokens_per_s * *head.median_s);
  }
  if (outcome.effect) {
    set_figures(*outcome.effect, &row);
  }
  row.verdict = outcome.verdict;
  row.state = outcome.state;
  row.reason = head.reason.empty() ? outcome.base.reason : head.reason;
  row.base_bytes = outcome.base.peak_bytes;
  row.head_bytes = head.peak_bytes;
  row.flags = outcome.flags;
  if (const auto text = human.explanations.find(outcome.key); text != human.explanations.end()) {
    row.explanation = text->second;
  }
  return row;
}

}  // namespace

Comparison comparison_of(const Plan& plan, const std::vector<RowOutcome>& rows, const Human& human,
                         const Hardware& card) {
  Comparison comparison;
  comparison.base = side_of(plan.base, plan, card);
  comparison.head = side_of(plan.head, plan, card);
  comparison.hardware = device_text(card);
  comparison.level = Level::kSameDevice;
  comparison.threshold = plan.threshold;
  comparison.paired = true;
  for (const RowOutcome& row : rows) {
    comparison.rows.push_back(row_of(row, human));
  }
  conclude(&comparison);
  return comparison;
}

Status save_comparison(const Plan& plan, const Journal& journal, const Human& human,
                       const std::string& run_dir) {
  const nlohmann::json* const step = journal.find("hardware");
  const Result<Hardware> card =
      step == nullptr ? Result<Hardware>(Hardware{}) : hardware_from_json(step->at("card"));
  const std::vector<RowOutcome> rows = row_outcomes(plan, journal);
  return card.ok() ? write_file(comparison_path(run_dir),
                                to_json(comparison_of(plan, rows, human, card.value())))
                   : card.status();
}

}  // namespace fla::perf::evidence
