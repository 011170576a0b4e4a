// SPDX-License-Identifier: MIT
// The drawings of a report, by gnuplot.
#include "perf/report/plots.h"

#include <algorithm>

#include <fmt/format.h>

#include "perf/host/process.h"
#include "perf/write_file.h"

namespace fla::perf::report {
namespace {

constexpr const char* kBase = "#6e7781";
constexpr const char* kHead = "#0969da";

std::string terminal(int width, int height) {
  return fmt::format(
      "set terminal svg size {},{} font 'sans-serif,12' background '#ffffff'\n"
      "set encoding utf8\nset grid lc rgb '#d0d7de'\n",
      width, height);
}

/// Text between double quotes of a gnuplot program, taken as it is.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c == '\n' ? ' ' : c;
  }
  return out + '"';
}

/// A block of data under a name.
std::string data(const std::string& name, const std::string& lines) {
  return fmt::format("${} << EOD\n{}EOD\n", name, lines);
}

}  // namespace

std::string distributions_script(const std::vector<Distribution>& rows) {
  if (rows.empty()) {
    return {};
  }
  std::string base;
  std::string head;
  std::string ticks;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double y = static_cast<double>(rows.size() - i);
    std::vector<double> sorted = rows[i].base_s;
    std::sort(sorted.begin(), sorted.end());
    const double middle = sorted.empty() ? 0 : sorted[sorted.size() / 2];
    if (middle <= 0) {
      continue;
    }
    for (const double s : rows[i].base_s) {
      base += fmt::format("{} {}\n", 100 * s / middle, y + 0.12);
    }
    for (const double s : rows[i].head_s) {
      head += fmt::format("{} {}\n", 100 * s / middle, y - 0.12);
    }
    ticks += fmt::format("{}{} {}", ticks.empty() ? "" : ", ", quoted(rows[i].row), y);
  }
  if (base.empty() || head.empty()) {
    return {};
  }
  return terminal(960, 110 + 34 * static_cast<int>(rows.size())) + data("base", base) +
         data("head", head) +
         fmt::format(
             "set ytics noenhanced ({}) font ',10'\nset yrange [0.4:{}]\n"
             "set xlabel 'time of a block, % of the base median'\nset key outside top\n"
             "set offsets graph 0.02, graph 0.02, 0, 0\n"
             "plot $base using 1:2 with points pt 7 ps 0.6 lc rgb '{}' title 'base', "
             "$head using 1:2 with points pt 7 ps 0.6 lc rgb '{}' title 'head'\n",
             ticks, static_cast<double>(rows.size()) + 0.6, kBase, kHead);
}

std::string roofline_script(const std::vector<ncu::KernelProfile>& profiles) {
  const ncu::Roofline* roof = nullptr;
  std::string points;
  double low = 0.1;
  double high = 1000;
  for (const ncu::KernelProfile& profile : profiles) {
    const ncu::Roofline& one = profile.roofline;
    if (!one.attainable() || *one.flops_per_byte <= 0 || *one.flops_per_s <= 0) {
      continue;
    }
    roof = roof == nullptr || *one.peak_flops_per_s > *roof->peak_flops_per_s ? &one : roof;
    points +=
        fmt::format("{} {} {}\n", *one.flops_per_byte, *one.flops_per_s * 1e-12,
                    quoted(fmt::format("{}{}", profile.tag, one.estimated ? " (estimate)" : "")));
    low = std::min(low, *one.flops_per_byte / 4);
    high = std::max(high, *one.flops_per_byte * 4);
  }
  if (roof == nullptr || *roof->peak_bytes_per_s <= 0) {
    return {};
  }
  return terminal(820, 460) + data("points", points) +
         fmt::format(
             "set logscale xy\nset xrange [{}:{}]\n"
             "set xlabel 'operations a byte of DRAM traffic'\nset ylabel 'TFLOP/s'\n"
             "set key left top\n"
             "memory(x) = x * {}\ncompute = {}\n"
             "plot (memory(x) < compute ? memory(x) : compute) with lines lw 2 "
             "lc rgb '{}' title {} noenhanced, $points using 1:2 with points pt 7 ps 1.2 "
             "lc rgb '{}' notitle, $points using 1:2:3 with labels noenhanced "
             "offset 1,0.8 left notitle\n",
             low, high, *roof->peak_bytes_per_s * 1e-12, *roof->peak_flops_per_s * 1e-12, kBase,
             quoted(fmt::format("DRAM {:.2f} TB/s, {} {:.0f} TFLOP/s",
                                *roof->peak_bytes_per_s * 1e-12, roof->unit,
                                *roof->peak_flops_per_s * 1e-12)),
             kHead);
}

std::string stalls_script(const ncu::KernelProfile& profile) {
  constexpr size_t kMost = 10;
  const std::vector<ncu::Stall>& all =
      profile.stalls.sampled.empty() ? profile.stalls.aggregate : profile.stalls.sampled;
  if (all.empty()) {
    return {};
  }
  const size_t count = std::min(kMost, all.size());
  std::string lines;
  for (size_t i = 0; i < count; ++i) {
    lines += fmt::format("{} {} {}\n", count - i, 100 * all[i].share, quoted(all[i].reason));
  }
  return terminal(820, 90 + 26 * static_cast<int>(count)) + data("stalls", lines) +
         fmt::format(
             "set style fill solid\nset xrange [0:*]\nset yrange [0.3:{}]\n"
             "set xlabel '% of {}'\nset ytics noenhanced\nunset key\n"
             "plot $stalls using ($2/2):1:($2/2):(0.35):ytic(3) with boxxyerror "
             "lc rgb '{}'\n",
             static_cast<double>(count) + 0.7,
             profile.stalls.sampled.empty() ? "the time between two issues of a warp"
                                            : "warp samples",
             kHead);
}

std::string timeline_script(const ncu::KernelProfile& profile) {
  const ncu::Timeline& timeline = profile.timeline;
  if (timeline.series.empty()) {
    return {};
  }
  const double step_us = timeline.interval_s.value_or(0) * 1e6;
  std::string blocks;
  std::string plot;
  for (size_t i = 0; i < timeline.series.size(); ++i) {
    const ncu::Series& series = timeline.series[i];
    const double top = *std::max_element(series.values.begin(), series.values.end());
    const double scale = series.unit == "%" ? 1 : top > 0 ? 100 / top : 0;
    std::string lines;
    for (size_t t = 0; t < series.values.size(); ++t) {
      lines += fmt::format("{} {}\n", static_cast<double>(t) * (step_us > 0 ? step_us : 1),
                           series.values[t] * scale);
    }
    blocks += data(fmt::format("s{}", i), lines);
    plot += fmt::format("{}$s{} using 1:2 with lines lw 1.5 title {} noenhanced",
                        plot.empty() ? "plot " : ", ", i,
                        quoted(series.name + (series.unit == "%" ? "" : ", of its maximum")));
  }
  return terminal(960, 360) + blocks +
         fmt::format(
             "set xlabel '{}'\nset ylabel '%'\nset yrange [0:*]\nset key outside top center "
             "horizontal\n{}\n",
             step_us > 0 ? "us in the kernel" : "samples in the kernel", plot);
}

Result<std::string> draw(const std::string& gnuplot, const std::string& script_file,
                         const std::string& script) {
  constexpr double kTimeoutS = 60;
  if (Status status = write_file(script_file, script); !status.ok()) {
    return status;
  }
  Result<host::Finished> run =
      host::run({.argv = {gnuplot, script_file}, .env = {{"LC_ALL", "C"}}, .timeout_s = kTimeoutS});
  if (!run.ok()) {
    return run.status();
  }
  const host::Finished& finished = run.value();
  if (!finished.ok() || finished.out.find("</svg>") == std::string::npos) {
    return Status(Code::kIo, fmt::format("gnuplot ended with status {} on {}: {}", finished.status,
                                         script_file, finished.err.substr(0, 300)));
  }
  return std::move(run.value().out);
}

}  // namespace fla::perf::report
