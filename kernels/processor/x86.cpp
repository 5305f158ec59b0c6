// SPDX-License-Identifier: Apache-2.0
// Compiled for the plainest x86-64 (CMakeLists.txt): it must run on the processor that lacks what it looks
// for.
#include <immintrin.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "kernels/error.hpp"
#include "kernels/half_rounding.hpp"
#include "kernels/processor/processor.hpp"
#include "kernels/processor/required_features.hpp"

namespace flotilla {

namespace {

struct Feature {
  const char* name;
  bool required;
  bool (*present)();
};

// The builtin takes literals only. required_features.hpp is made by CMake from the compiler's own macros.
constexpr Feature features[] = {
    {"sse4.2", required_feature::sse4_2, [] { return __builtin_cpu_supports("sse4.2") != 0; }},
    {"popcnt", required_feature::popcnt, [] { return __builtin_cpu_supports("popcnt") != 0; }},
    {"avx", required_feature::avx, [] { return __builtin_cpu_supports("avx") != 0; }},
    {"avx2", required_feature::avx2, [] { return __builtin_cpu_supports("avx2") != 0; }},
    {"fma", required_feature::fma, [] { return __builtin_cpu_supports("fma") != 0; }},
    {"bmi", required_feature::bmi, [] { return __builtin_cpu_supports("bmi") != 0; }},
    {"bmi2", required_feature::bmi2, [] { return __builtin_cpu_supports("bmi2") != 0; }},
    {"avx512f", required_feature::avx512f, [] { return __builtin_cpu_supports("avx512f") != 0; }},
    {"avx512cd", required_feature::avx512cd, [] { return __builtin_cpu_supports("avx512cd") != 0; }},
    {"avx512bw", required_feature::avx512bw, [] { return __builtin_cpu_supports("avx512bw") != 0; }},
    {"avx512dq", required_feature::avx512dq, [] { return __builtin_cpu_supports("avx512dq") != 0; }},
    {"avx512vl", required_feature::avx512vl, [] { return __builtin_cpu_supports("avx512vl") != 0; }},
    {"avx512ifma", required_feature::avx512ifma, [] { return __builtin_cpu_supports("avx512ifma") != 0; }},
    {"avx512vbmi", required_feature::avx512vbmi, [] { return __builtin_cpu_supports("avx512vbmi") != 0; }},
    {"avx512vbmi2", required_feature::avx512vbmi2, [] { return __builtin_cpu_supports("avx512vbmi2") != 0; }},
    {"avx512vnni", required_feature::avx512vnni, [] { return __builtin_cpu_supports("avx512vnni") != 0; }},
    {"avx512bitalg", required_feature::avx512bitalg,
     [] { return __builtin_cpu_supports("avx512bitalg") != 0; }},
    {"avx512vpopcntdq", required_feature::avx512vpopcntdq,
     [] { return __builtin_cpu_supports("avx512vpopcntdq") != 0; }},
};

/// Only for processors that have AVX512_BF16.
__attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16"))) void round_by_instruction(std::int64_t count,
                                                                                          const float* from,
                                                                                          std::uint16_t* to) {
  constexpr std::int64_t lanes = 16;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(from + i)));
    _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to + i), rounded);
  }
  const auto rest = static_cast<__mmask16>((1U << (count - i)) - 1U);
  const auto rounded = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(rest, from + i)));
  _mm256_mask_storeu_epi16(to + i, rest, rounded);
}

/// Whether a launcher started another process on this host before this one.
bool is_further_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    const char* const number = std::getenv(name);
    if (number != nullptr) return std::atoi(number) > 0;
  }
  return false;
}

/// Ends the process where the processor lacks an instruction set that the executable was compiled for, with
/// one line for each host. The constructors of the program's global objects use these instructions already:
/// this one comes before them, and uses nothing but the C library.
[[gnu::constructor(101)]] void refuse_older_processors() {
  __builtin_cpu_init();
  for (const Feature& feature : features) {
    if (!feature.required || feature.present()) continue;
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    if (!is_further_rank())
      dprintf(
          STDERR_FILENO,
          "flotilla: the processor of %s lacks %s, and this executable was built with -march=%s: build it "
          "there, or with -DFLOTILLA_ARCHITECTURE=x86-64-v3 or x86-64\n",
          host.data(), feature.name, required_feature::architecture);
    // MPICH's launcher ends the others, which wait for this process in MPI_Init, for a signal only; and then
    // drops what it has not read of their lines.
    if (std::getenv("PMI_RANK") != nullptr) {
      usleep(300'000);
      std::raise(SIGILL);
    }
    _exit(exit_user_error);
  }
}

}  // namespace

std::string built_for() {
  std::string text = required_feature::architecture;
  const char* separator = " (";
  for (const Feature& feature : features) {
    if (!feature.required) continue;
    text += separator;
    text += feature.name;
    separator = " ";
  }
  return *separator == ' ' && separator[1] == '(' ? text : text + ")";
}

bool flush_denormals() {
  constexpr unsigned results_to_zero = 0x8000;
  constexpr unsigned operands_as_zero = 0x0040;
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | results_to_zero | operands_as_zero);
  return true;
}

void round_to_bfloat16(std::int64_t count, const float* from, std::uint16_t* to) {
  static const bool has_instruction = __builtin_cpu_supports("avx512bf16") != 0;
  if (has_instruction) return round_by_instruction(count, from, to);
  for (std::int64_t i = 0; i < count; ++i) to[i] = half::bfloat16_of(from[i]);
}

bool is_amd() {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") != 0;
}

}  // namespace flotilla
