/* The device of a session: taken when its first engine is made, held while it is attached. */
#include "device/device.h"

#include "base/status.h"
#include "session/session.h"

static ipu_status create(ipu__session *s, ipu__compiled *c)
{
    if (!s->device && s->device_id > 0) {
        int id = s->device_id - 1;
        IPU_TRY(s->alone ? ipu_device_open(id, &s->device) : ipu__device_use_id(id, &s->device));
    }
    if (s->device) return ipu_engine_create_on(c->exe, s->options, s->device, &c->engine);
    IPU_TRY(ipu_engine_create(c->exe, s->options, &c->engine));
    ipu_device *used = ipu_engine_device(c->engine);
    if (used) s->device = ipu__device_retain(used);
    return IPU_OK;
}

ipu_status ipu__session_start(ipu__session *s, ipu__compiled *c)
{
    if (c->engine) return IPU_OK;
    IPU_TRY(create(s, c));
    ipu__session_has_run(s); /* it is attached now, unless that is left to a run */
    return IPU_OK;
}

void ipu__session_has_run(ipu__session *s)
{
    if (s->holds || !s->device || !ipu_device_is_attached(s->device)) return;
    ipu__device_hold(s->device);
    s->holds = true;
}

ipu_status ipu__session_attach(ipu__session *s)
{
    if (s->device) IPU_TRY(ipu_device_attach(s->device, 0));
    ipu__session_has_run(s);
    return IPU_OK;
}

bool ipu__session_is_attached(const ipu__session *s) { return s->holds && ipu_device_is_attached(s->device); }

ipu_status ipu__session_detach(ipu__session *s)
{
    if (!s->holds) return IPU_OK;
    IPU_TRY(ipu__device_leave(s->device));
    s->holds = false;
    return IPU_OK;
}

void ipu__session_leave(ipu__session *s)
{
    if (s->holds) ipu__device_unhold(s->device);
    ipu_device_close(s->device);
    s->device = NULL;
    s->holds  = false;
}
