import type { LoginDetail } from "../port.ts";

export interface CallbackPage {
  readonly status: number;
  readonly title: string;
  readonly text: string;
}

const CLOSE = "You can close this window.";
const TRY_AGAIN = "Nothing was stored. You can close this window and sign in again.";

/** The page that the browser shows for each result of a sign-in. */
export const endPages: Readonly<Record<LoginDetail, CallbackPage>> = {
  ok: { status: 200, title: "You are signed in", text: CLOSE },
  denied_by_user: {
    status: 200,
    title: "You declined to sign in",
    text: `Nothing was kept. ${CLOSE}`,
  },
  state_mismatch: {
    status: 400,
    title: "This sign-in was stopped",
    text: `The answer does not belong to the sign-in that was started here. ${TRY_AGAIN}`,
  },
  issuer_mismatch: {
    status: 400,
    title: "This sign-in was stopped",
    text: `The answer comes from another server than the one you signed in at. ${TRY_AGAIN}`,
  },
  exchange_failed: {
    status: 502,
    title: "Signing in failed",
    text: `The provider did not complete the sign-in. ${TRY_AGAIN}`,
  },
  timeout: { status: 410, title: "This sign-in took too long", text: TRY_AGAIN },
  superseded: {
    status: 410,
    title: "A newer sign-in was started",
    text: `This one has ended. ${CLOSE}`,
  },
  cancelled: { status: 410, title: "This sign-in was cancelled", text: TRY_AGAIN },
  storage_failed: {
    status: 500,
    title: "Signing in failed",
    text: `The session could not be stored on this machine. ${TRY_AGAIN}`,
  },
};

export const usedCallbackPage: CallbackPage = {
  status: 410,
  title: "This sign-in has ended",
  text: `It was completed before. ${CLOSE}`,
};

export const wrongHostPage: CallbackPage = {
  status: 400,
  title: "This request was refused",
  text: `The request was sent to another host name than that of this sign-in. ${TRY_AGAIN}`,
};

export const notFoundPage: CallbackPage = {
  status: 404,
  title: "There is nothing here",
  text: "This address is for signing in only.",
};

export const wrongMethodPage: CallbackPage = {
  status: 405,
  title: "This request was refused",
  text: "This address accepts only GET requests.",
};

/** The headers of every page. No page contains data from a request. */
export const pageHeaders: Readonly<Record<string, string>> = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy":
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  connection: "close",
};

export function renderPage({ title, text }: CallbackPage): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title></head>
<body><h1>${title}</h1><p>${text}</p></body>
</html>
`;
}
