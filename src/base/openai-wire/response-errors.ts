/** Creates the errors for an answer that cannot be read. Their messages name the server and say what to do next. */
export interface ResponseErrors {
  /** For an answer that breaks the convention; `what` describes the violation without quoting the answer. */
  malformedResponse(what: string, cause?: unknown): Error;
  /** For the error that the answer itself reports: the value of its member `error`. */
  fromEnvelope(envelope: unknown): Error;
}

/** Throws `malformedResponse(what)` if the text is not JSON. */
export function parseJson(text: string, what: string, errors: ResponseErrors): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw errors.malformedResponse(what, error);
  }
}
