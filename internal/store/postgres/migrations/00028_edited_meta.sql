-- What a task carries since an edit changed it, as a JSON object: '' = nothing. NULL: as it was submitted.
ALTER TABLE rota.edit ADD meta text;
