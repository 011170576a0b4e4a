/* SPDX-License-Identifier: MIT */
/* KDA forward through the C ABI, checked against a plain loop over tokens. Usage: kda_forward
 * [ref|cpu] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fla/fla.h"

enum { T = 70, H = 2, K = 16, V = 8 };

static float q[T][H][K], k[T][H][K], v[T][H][V], g[T][H][K], beta[T][H], o[T][H][V];
static float final_state[H][K][V];

static float uniform(void) {
  return (float)rand() / (float)RAND_MAX;
}

static void fill_inputs(void) {
  for (int t = 0; t < T; ++t) {
    for (int h = 0; h < H; ++h) {
      for (int i = 0; i < K; ++i) {
        q[t][h][i] = uniform() - 0.5F;
        k[t][h][i] = uniform() - 0.5F;
        g[t][h][i] = -uniform();
      }
      for (int j = 0; j < V; ++j)
        v[t][h][j] = uniform() - 0.5F;
      beta[t][h] = uniform();
    }
  }
}

/* A contiguous fp32 tensor on the CPU. */
static fla_tensor tensor(const char* name, void* data, int32_t rank, const int64_t* shape) {
  fla_tensor view = {
      .struct_size = sizeof view, .name = name, .data = data, .dtype = FLA_FP32, .rank = rank};
  int64_t stride = 1;
  for (int32_t d = rank - 1; d >= 0; --d) {
    view.shape[d] = shape[d];
    view.stride[d] = stride;
    stride *= shape[d];
  }
  return view;
}

/* Largest difference between o and S = D S + beta k (v - (D S)^T k)^T, o = K^-1/2 S^T q. */
static double largest_error(void) {
  double error = 0;
  for (int h = 0; h < H; ++h) {
    double S[K][V] = {{0}};
    for (int t = 0; t < T; ++t) {
      for (int j = 0; j < V; ++j) {
        double read = 0, out = 0;
        for (int i = 0; i < K; ++i) {
          S[i][j] *= exp(g[t][h][i]);
          read += S[i][j] * k[t][h][i];
        }
        for (int i = 0; i < K; ++i) {
          S[i][j] += beta[t][h] * k[t][h][i] * (v[t][h][j] - read);
          out += S[i][j] * q[t][h][i];
        }
        error = fmax(error, fabs(out / sqrt(K) - o[t][h][j]));
      }
    }
    for (int i = 0; i < K; ++i) {
      for (int j = 0; j < V; ++j)
        error = fmax(error, fabs(S[i][j] - final_state[h][i][j]));
    }
  }
  return error;
}

int main(int argc, char** argv) {
  fla_desc desc;
  fla_desc_init(&desc);
  desc.dtype = FLA_FP32;
  desc.T = T;
  desc.H = H;
  desc.K = K;
  desc.V = V;
  desc.given = "final_state";
  fla_context context;
  fla_context_init(&context);
  if (argc > 1 && strcmp(argv[1], "ref") == 0)
    context.backend = FLA_BACKEND_REF;

  fla_plan* plan = NULL;
  if (fla_plan_create("chunk_kda", &desc, &context, &plan) != FLA_OK) {
    fprintf(stderr, "%s\n", fla_last_message());
    return 1;
  }
  fill_inputs();
  const int64_t key[] = {1, T, H, K}, value[] = {1, T, H, V}, head[] = {1, T, H},
                state[] = {1, H, K, V};
  const fla_tensor tensors[] = {tensor("q", q, 4, key),
                                tensor("k", k, 4, key),
                                tensor("v", v, 4, value),
                                tensor("g", g, 4, key),
                                tensor("beta", beta, 3, head),
                                tensor("o", o, 4, value),
                                tensor("final_state", final_state, 4, state)};
  const size_t bytes = (size_t)fla_plan_workspace_bytes(plan);
  char* memory = malloc(bytes + 256);
  if (memory == NULL)
    return 1;
  char* workspace = memory + (256 - (uintptr_t)memory % 256);
  const int32_t code =
      fla_plan_run(plan, tensors, sizeof tensors / sizeof tensors[0], workspace, bytes, NULL);
  if (code != FLA_OK)
    fprintf(stderr, "%s\n", fla_last_message());
  const double error = code == FLA_OK ? largest_error() : 1;
  printf("%s: largest error %.2g\n", fla_plan_name(plan), error);
  free(memory);
  fla_plan_destroy(plan);
  return error < 1e-6 ? 0 : 1;
}
