/** Creates the errors for an answer that cannot be read. Their messages name the server and say what to do next. */
export interface ResponseErrors {
  /**
   * Creates the error for an answer that breaks the conventions of the OpenAI API; `what` describes the violation
   * without quoting the answer.
   */
  malformedResponse(what: string, cause?: unknown): Error;
  /** Creates the error that the answer itself reports, from the value of its member `error`. */
  fromEnvelope(envelope: unknown): Error;
}

/** Parses JSON. Throws `malformedResponse(what)` if the text is not JSON. */
export function parseJson(text: string, what: string, errors: ResponseErrors): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw errors.malformedResponse(what, error);
  }
}
