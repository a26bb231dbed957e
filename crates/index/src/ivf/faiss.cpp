// What Faiss' C interface lacks: reading what an index holds, and a scan that counts into statistics of its own.
//
// Faiss' C interface calls search_preassigned without statistics, and Faiss then adds to a process-wide object from all
// threads at once: a data race, and a cache line that every scan pulls from another core.

#include <cstdio>
#include <cstring>
#include <exception>
#include <typeinfo>
#include <vector>

#include <faiss/IndexIVF.h>
#include <faiss/IndexIVFFastScan.h>
#include <faiss/IndexIVFFlat.h>
#include <faiss/IndexIVFPQ.h>
#include <faiss/IndexIVFPQFastScan.h>
#include <faiss/IndexPreTransform.h>
#include <faiss/IndexScalarQuantizer.h>
#include <faiss/VectorTransform.h>
#include <faiss/invlists/BlockInvertedLists.h>

namespace {

// Calls `body` and returns 0, or writes what it threw into `error` and returns -1.
template <class Body>
int caught(char* error, size_t room, Body body) {
    try {
        body();
        return 0;
    } catch (const std::exception& thrown) {
        std::snprintf(error, room, "%s", thrown.what());
    } catch (...) {
        std::snprintf(error, room, "%s", "Faiss threw something that is no exception");
    }
    return -1;
}

} // namespace

// Searches one query in `nprobe` lists and returns 0, or writes why not into `error`, at most `room` bytes with the final
// zero, and returns -1. Nothing is thrown.
extern "C" int chiplet_ivf_scan(
        const faiss::IndexIVF* index,
        const float* query,
        faiss::idx_t k,
        const faiss::idx_t* lists,
        const float* centroids,
        float* distances,
        faiss::idx_t* ids,
        char* error,
        size_t room) {
    return caught(error, room, [=] {
        faiss::IndexIVFStats own;
        // Fast-scan refuses statistics of the caller's and writes the process-wide ones whatever it is given.
        const bool fast_scan = dynamic_cast<const faiss::IndexIVFFastScan*>(index) != nullptr;
        faiss::IndexIVFStats* const stats = fast_scan ? nullptr : &own;
        index->search_preassigned(
                1, query, k, lists, centroids, distances, ids, false, nullptr, stats);
    });
}

// Has an index that is not trained yet code rows as they are, not less their list's centroid.
extern "C" void chiplet_ivf_code_rows(faiss::Index* index) {
    // Of other kinds some code residuals only.
    if (dynamic_cast<faiss::IndexIVFScalarQuantizer*>(index) != nullptr ||
        dynamic_cast<faiss::IndexIVFPQ*>(index) != nullptr ||
        dynamic_cast<faiss::IndexIVFPQFastScan*>(index) != nullptr) {
        static_cast<faiss::IndexIVF*>(index)->by_residual = false;
    }
}

// What the codes of an index mean. `values` belong to the index.
struct ChipletCodes {
    // 0: something else; 1: f32; 2: 8 bits in a range a component; 3: f16; 4: bf16; 5: product quantizer; 6: 4 bits in a range a
    // component.
    int kind;
    int by_residual;
    // Of a product quantizer: codes of a row, and bits of a code.
    size_t m;
    size_t bits;
    size_t code_bytes;
    // Rows of a block, where the codes of a list lie in blocks (fast-scan); else 0.
    size_t block_rows;
    // Kinds 2 and 6: least values, then spans, `dim` each. Kind 5: centroids, [m][2^bits][dim / m].
    const float* values;
    size_t count;
};

// Classes derived from those below store their codes otherwise, so the exact class is asked for.
extern "C" int chiplet_ivf_codes(const faiss::IndexIVF* index, ChipletCodes* codes) {
    *codes = {0, index->by_residual ? 1 : 0, 0, 0, index->code_size, 0, nullptr, 0};
    const std::type_info& type = typeid(*index);
    const faiss::ProductQuantizer* pq = nullptr;
    if (const auto* blocks = dynamic_cast<const faiss::BlockInvertedLists*>(index->invlists)) {
        codes->block_rows = blocks->n_per_block;
    }
    if (type == typeid(faiss::IndexIVFFlat)) {
        codes->kind = 1;
        codes->by_residual = 0;
    } else if (type == typeid(faiss::IndexIVFScalarQuantizer)) {
        const auto& sq = static_cast<const faiss::IndexIVFScalarQuantizer*>(index)->sq;
        switch (sq.qtype) {
            case faiss::ScalarQuantizer::QT_8bit:
            case faiss::ScalarQuantizer::QT_4bit:
                codes->kind = sq.qtype == faiss::ScalarQuantizer::QT_8bit ? 2 : 6;
                codes->values = sq.trained.data();
                codes->count = sq.trained.size();
                break;
            case faiss::ScalarQuantizer::QT_fp16:
                codes->kind = 3;
                break;
            case faiss::ScalarQuantizer::QT_bf16:
                codes->kind = 4;
                break;
            default:
                break;
        }
    } else if (type == typeid(faiss::IndexIVFPQ)) {
        pq = &static_cast<const faiss::IndexIVFPQ*>(index)->pq;
    } else if (type == typeid(faiss::IndexIVFPQFastScan)) {
        pq = &static_cast<const faiss::IndexIVFPQFastScan*>(index)->pq;
    }
    if (pq != nullptr) {
        codes->kind = 5;
        codes->m = pq->M;
        codes->bits = pq->nbits;
        codes->values = pq->centroids.data();
        codes->count = pq->centroids.size();
    }
    return codes->kind;
}

// The linear transforms of `index`, one after the other, as one: `y = matrix x + shift`. Without `matrix` only the numbers of
// components are written, of `x` and `y`; with it also `[to][from]` and `[to]` floats.
extern "C" int chiplet_linear(
        const faiss::Index* index,
        size_t* from,
        size_t* to,
        float* matrix,
        float* shift,
        char* error,
        size_t room) {
    return caught(error, room, [=] {
        const auto* outer = dynamic_cast<const faiss::IndexPreTransform*>(index);
        FAISS_THROW_IF_NOT_MSG(outer != nullptr && !outer->chain.empty(), "no transform");
        const size_t given = outer->chain.front()->d_in;
        // The unit vectors and 0 go through the chain: the columns of the matrix, and the shift.
        std::vector<double> columns((given + 1) * given);
        for (size_t i = 0; i < given; i++) {
            columns[i * given + i] = 1;
        }
        size_t width = given;
        for (const faiss::VectorTransform* step : outer->chain) {
            const auto* linear = dynamic_cast<const faiss::LinearTransform*>(step);
            FAISS_THROW_IF_NOT_MSG(linear != nullptr, "a transform that is not linear");
            FAISS_THROW_IF_NOT_MSG(linear->is_trained, "a transform that is not trained");
            const size_t wide = linear->d_out;
            FAISS_THROW_IF_NOT(linear->A.size() == wide * width);
            if (matrix != nullptr) {
                std::vector<double> mapped((given + 1) * wide);
                for (size_t column = 0; column <= given; column++) {
                    for (size_t j = 0; j < wide; j++) {
                        double sum = column == given && linear->have_bias ? linear->b[j] : 0;
                        for (size_t i = 0; i < width; i++) {
                            sum += linear->A[j * width + i] * columns[column * width + i];
                        }
                        mapped[column * wide + j] = sum;
                    }
                }
                columns.swap(mapped);
            }
            width = wide;
        }
        *from = given;
        *to = width;
        if (matrix != nullptr) {
            for (size_t j = 0; j < width; j++) {
                for (size_t i = 0; i < given; i++) {
                    matrix[j * given + i] = columns[i * width + j];
                }
                shift[j] = columns[given * width + j];
            }
        }
    });
}

// Copies the codes of `list` to `to`, as they are stored: one row after the other or in whole blocks, `bytes` in all.
extern "C" int chiplet_ivf_list(
        const faiss::IndexIVF* index,
        size_t list,
        unsigned char* to,
        size_t bytes,
        char* error,
        size_t room) {
    return caught(error, room, [=] {
        const size_t rows = index->invlists->list_size(list);
        size_t stored = rows * index->code_size;
        if (const auto* blocks = dynamic_cast<const faiss::BlockInvertedLists*>(index->invlists)) {
            stored = (rows + blocks->n_per_block - 1) / blocks->n_per_block * blocks->block_size;
        }
        FAISS_THROW_IF_NOT(bytes == stored);
        if (rows == 0) {
            return;
        }
        faiss::InvertedLists::ScopedCodes codes(index->invlists, list);
        std::memcpy(to, codes.get(), bytes);
    });
}
