-- Routes learned and lost, groups joined and left, links up and down, adverts. A line may stand for several `changes`.
-- The subject of a local app's link is left out: apps and commands come and go as they are used.
CREATE TABLE route_change AS
SELECT
    routers.key AS router, seq, t,
    minute_of(t) AS minute,
    event,
    coalesce(
        fields['destination'], fields['group'], CASE WHEN fields['standing'] = 'local' THEN NULL ELSE fields['peer'] END,
        fields['subscriber']
    ) AS subject,
    fields['neighbour'] AS neighbour,
    coalesce(count, 1) AS changes
FROM events JOIN routers USING (router)
WHERE list_contains(getvariable('route_events'), event);
