/* SPDX-License-Identifier: MIT */
/* The C ABI of libfla: plan an operator, run it, destroy the plan. Pure C99. */
#ifndef FLA_FLA_H_
#define FLA_FLA_H_
// NOLINTBEGIN: C names

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FLA_API __attribute__((visibility("default")))
#else
#define FLA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a struct or a function changes in a way that old callers notice. */
#define FLA_ABI_VERSION 1
#define FLA_MAX_RANK 5

/* What every function that can fail returns; fla_last_message() says why. */
enum {
  FLA_OK = 0,
  FLA_INVALID_ARGUMENT = 1,
  FLA_UNSUPPORTED = 2,
  FLA_WORKSPACE_TOO_SMALL = 3,
  FLA_NO_DEVICE = 4,
  FLA_CUDA = 5,
  FLA_IO = 6,
  FLA_INTERNAL = 7
};

/* dtypes */
enum {
  FLA_BF16 = 0,
  FLA_FP16 = 1,
  FLA_FP32 = 2,
  FLA_FP64 = 3,
  FLA_INT32 = 4,
  FLA_INT64 = 5,
  FLA_UINT8 = 6
};

enum { FLA_DEVICE_CPU = 0, FLA_DEVICE_CUDA = 1 };
enum { FLA_BACKEND_AUTO = 0, FLA_BACKEND_REF = 1, FLA_BACKEND_CPU = 2, FLA_BACKEND_CUDA = 3 };
enum { FLA_FORWARD = 0, FLA_BACKWARD = 1 };
enum { FLA_FORM_CHUNK = 0, FLA_FORM_RECURRENT = 1 };
enum { FLA_GATE_LOG = 0, FLA_GATE_SOFTPLUS = 1, FLA_GATE_LOWER_BOUND = 2 };

/* For fla_sizeof: how bindings verify their mirror of a struct. */
enum { FLA_SIZEOF_DESC = 0, FLA_SIZEOF_CONTEXT = 1, FLA_SIZEOF_TENSOR = 2 };

/* Dimensions and switches of a call. Fill it with fla_desc_init first. Which operator takes which
   switch, and the shape of every tensor: docs/limits.md. */
typedef struct fla_desc {
  uint64_t struct_size; /* sizeof(fla_desc) */
  int32_t pass;         /* FLA_FORWARD, FLA_BACKWARD */
  int32_t form;         /* FLA_FORM_*; a benchmark name such as "chunk_kda" sets it too */
  int32_t dtype;        /* of q, k, v, o and their gradients */
  int32_t gate_input;   /* FLA_GATE_* */

  int64_t B;               /* batch; 1 when packed */
  int64_t T;               /* tokens per batch row; all tokens when packed */
  int64_t H;               /* query and key heads */
  int64_t HV;              /* value heads, a multiple of H; 0 means H */
  int64_t K;               /* key dimension of a head */
  int64_t V;               /* value dimension of a head */
  int64_t N;               /* packed sequences; 0 means dense */
  int64_t M;               /* gsa: memory slots */
  int64_t num_householder; /* gated_delta_product: steps a token */
  int64_t num_state_slots; /* rows of the state pool; 0 means one state a sequence */
  int64_t layer_idx;       /* lightning_attn */
  int64_t num_layers;      /* lightning_attn */

  double scale;       /* multiplies o; NaN means the operator's default */
  double lower_bound; /* with FLA_GATE_LOWER_BOUND, in [-5, 0); otherwise 0 */

  int32_t l2norm_qk;
  int32_t beta_sigmoid;
  int32_t allow_neg_eigval;
  int32_t safe_gate;
  int32_t state_v_first;
  int32_t normalize;

  /* The optional tensors that the call passes, separated by spaces: "initial_state final_state g".
     May be NULL. In backward "final_state" means that d_final_state is passed. */
  const char* given;
} fla_desc;

/* What a plan may use. Fill it with fla_context_init first. */
typedef struct fla_context {
  uint64_t struct_size; /* sizeof(fla_context) */
  int32_t backend;      /* FLA_BACKEND_* */
  int32_t device_type;  /* FLA_DEVICE_* */
  int32_t device_index;
  int32_t num_threads;    /* 0: all that OpenMP offers */
  int32_t check_inputs;   /* device cu_seqlens: synchronise and check the values */
  const char* cpu_target; /* NULL or "": the best one */
} fla_context;

/* A named tensor: "q", "initial_state", or the gradient of one: "dq", "do", "d_initial_state".
   Borrows its memory. Strides are in elements; the last one must be 1. */
typedef struct fla_tensor {
  uint64_t struct_size; /* sizeof(fla_tensor) */
  const char* name;
  void* data;
  int32_t dtype;
  int32_t device_type;
  int32_t device_index;
  int32_t rank;
  int64_t shape[FLA_MAX_RANK];
  int64_t stride[FLA_MAX_RANK];
} fla_tensor;

/* A checked, ready-to-run call. Immutable; several threads may run it at once, each with its own
   workspace. */
typedef struct fla_plan fla_plan;

/* FLA_ABI_VERSION of the library. */
FLA_API int32_t fla_abi_version(void);
/* "0.1.0". */
FLA_API const char* fla_version(void);
/* Size in bytes of a struct by FLA_SIZEOF_*; 0 for an unknown id. */
FLA_API uint64_t fla_sizeof(int32_t id);
/* Why the last failed call of this thread failed; never NULL, valid until the next failure. */
FLA_API const char* fla_last_message(void);

FLA_API int32_t fla_num_ops(void);
/* The registry name of operator `index` ("kda"); NULL when out of range. */
FLA_API const char* fla_op_name(int32_t index);

/* Defaults: forward, bf16, B = H = 1, no tokens, no switches. NULL is allowed. */
FLA_API void fla_desc_init(fla_desc* desc);
FLA_API void fla_context_init(fla_context* context);

/* Plans `op`, a registry name ("kda") or a benchmark name ("chunk_kda", "fused_recurrent_gdn").
   `context` may be NULL: defaults. *plan is NULL after a failure. */
FLA_API int32_t fla_plan_create(const char* op, const fla_desc* desc, const fla_context* context,
                                fla_plan** plan);
/* Scratch memory that fla_plan_run needs, in bytes; 0 for NULL. */
FLA_API uint64_t fla_plan_workspace_bytes(const fla_plan* plan);
/* The row key of reports; lives as long as the plan. NULL for NULL. */
FLA_API const char* fla_plan_name(const fla_plan* plan);
/* Computes. `tensors` holds `count` tensors in any order; a tensor with NULL data counts as not
   passed. `workspace` is 256-byte aligned (may be NULL when none is needed), its content undefined
   after. `stream` is a CUDA stream, ignored on the CPU. Writes every output or, on failure,
   nothing. */
FLA_API int32_t fla_plan_run(const fla_plan* plan, const fla_tensor* tensors, uint64_t count,
                             void* workspace, uint64_t workspace_bytes, void* stream);
/* NULL is allowed. */
FLA_API void fla_plan_destroy(fla_plan* plan);

#ifdef __cplusplus
}
#endif

#endif /* FLA_FLA_H_ */
// NOLINTEND
