// A scan of some lists that counts into statistics of its own.
//
// Faiss' C interface calls search_preassigned without statistics, and Faiss then adds to a process-wide object from all
// threads at once: a data race, and a cache line that every scan pulls from another core.

#include <cstdio>
#include <exception>

#include <faiss/IndexIVF.h>
#include <faiss/IndexIVFFastScan.h>

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
    try {
        faiss::IndexIVFStats own;
        // Fast-scan refuses statistics of the caller's and writes the process-wide ones whatever it is given.
        const bool fast_scan = dynamic_cast<const faiss::IndexIVFFastScan*>(index) != nullptr;
        faiss::IndexIVFStats* const stats = fast_scan ? nullptr : &own;
        index->search_preassigned(
                1, query, k, lists, centroids, distances, ids, false, nullptr, stats);
        return 0;
    } catch (const std::exception& caught) {
        std::snprintf(error, room, "%s", caught.what());
    } catch (...) {
        std::snprintf(error, room, "%s", "Faiss threw something that is no exception");
    }
    return -1;
}
