/* Recognising what is at a path: tries the kinds of file datasets one after another. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "data/image_set.h"

/* Whether a file with one of the endings exists; `out` is the path of the first found. */
static bool find_file(const char *folder, const char *stem, const char *const *endings, char out[PATH_MAX])
{
    for (; *endings; endings++) {
        struct stat st;
        int         n = snprintf(out, PATH_MAX, "%s/%s%s", folder, stem, *endings);
        if (n > 0 && n < PATH_MAX && stat(out, &st) == 0 && S_ISREG(st.st_mode)) return true;
    }
    return false;
}

/* ---- MNIST's four files ---- */

static const char *const image_endings[] = {"-images-idx3-ubyte", "-images.idx3-ubyte",
                                            "-images-idx3-ubyte.gz", "-images.idx3-ubyte.gz", NULL};
static const char *const label_endings[] = {"-labels-idx1-ubyte", "-labels.idx1-ubyte",
                                            "-labels-idx1-ubyte.gz", "-labels.idx1-ubyte.gz", NULL};

static const char *const idx_stems[] = {[IPU_TRAIN] = "train", [IPU_TEST] = "t10k"};

/* *found: such files exist, so no other kinds are tried. */
static ipu_status try_idx(const char *path, ipu_dataset_part part, bool *found, ipu__images *out)
{
    char images[PATH_MAX], labels[PATH_MAX];
    bool has_images = find_file(path, idx_stems[part], image_endings, images);
    bool has_labels = find_file(path, idx_stems[part], label_endings, labels);
    *found          = has_images || has_labels;
    if (has_images && has_labels) return ipu__idx_pair_read(images, labels, out);
    if (*found)
        return ipu__fail(IPU_NOT_FOUND, "%s is there, but no %s%s[.gz] beside it",
                         has_images ? images : labels, idx_stems[part],
                         has_images ? label_endings[0] : image_endings[0]);
    *found = find_file(path, idx_stems[!part], image_endings, images);
    if (*found)
        return ipu__fail(IPU_NOT_FOUND, "%s is there, but no %s%s[.gz] beside it", images, idx_stems[part],
                         image_endings[0]);
    return IPU_OK;
}

/* ---- numpy arrays ---- */

static const char *const npy_names[][2] = {
    [IPU_TRAIN] = {"x_train", "y_train"}, [IPU_TEST] = {"x_test", "y_test"}};

static ipu_status try_npy(const char *path, ipu_dataset_part part, bool *found, ipu__images *out)
{
    static const char *const endings[] = {".npy", NULL};
    char                     x[PATH_MAX], y[PATH_MAX];
    bool                     has_x = find_file(path, npy_names[part][0], endings, x);
    bool                     has_y = find_file(path, npy_names[part][1], endings, y);
    *found                         = has_x || has_y;
    if (has_x && has_y) return ipu__npy_pair_read(x, y, out);
    if (*found)
        return ipu__fail(IPU_NOT_FOUND, "%s is there, but no %s.npy beside it", has_x ? x : y,
                         npy_names[part][has_x]);
    has_x  = find_file(path, "images", endings, x);
    has_y  = find_file(path, "labels", endings, y);
    *found = has_x && has_y;
    if (!*found) return IPU_OK;
    IPU_TRY(ipu__npy_pair_read(x, y, out));
    out->undivided = true;
    return IPU_OK;
}

/* ---- all kinds ---- */

static bool is_archive(const char *path)
{
    char  magic[2] = {0};
    FILE *file     = fopen(path, "rbe");
    bool  is_zip = file && fread(magic, 1, sizeof magic, file) == sizeof magic && memcmp(magic, "PK", 2) == 0;
    if (file) fclose(file);
    return is_zip;
}

static ipu_status find_images(const char *path, ipu_dataset_part part, ipu__images *out)
{
    struct stat st;
    bool        found = false;
    if (stat(path, &st) != 0)
        return ipu__fail(errno == ENOENT ? IPU_NOT_FOUND : IPU_IO, "no dataset at %s: %s", path,
                         strerror(errno));
    if (S_ISREG(st.st_mode) && is_archive(path)) return ipu__npz_read_images(path, part, out);
    if (S_ISDIR(st.st_mode)) {
        IPU_TRY(try_idx(path, part, &found, out));
        if (!found) IPU_TRY(try_npy(path, part, &found, out));
        if (!found) IPU_TRY(ipu__image_folder_read(path, part, &found, out));
    }
    if (found) return IPU_OK;
    return ipu__fail(
        IPU_NOT_FOUND,
        "no dataset at %s: expected a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
        "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (each may end in .gz), or with class folders of "
        "PNG files, or with train/ and test/ that hold those, or with x_train.npy, y_train.npy, x_test.npy "
        "and y_test.npy (or images.npy and labels.npy); or an .npz file with arrays of these names",
        path);
}

ipu_status ipu_dataset_open(const char *path, ipu_dataset_part part, const ipu_dataset_options *options,
                            ipu_dataset **out)
{
    ipu__images images = {0};
    *out               = NULL;
    if (part != IPU_TRAIN && part != IPU_TEST)
        return ipu__fail(IPU_INVALID, "part %d of a dataset: expected IPU_TRAIN or IPU_TEST", (int)part);
    IPU_TRY(find_images(path, part, &images));
    return ipu__image_set_create(&images, part, options, path, out);
}
