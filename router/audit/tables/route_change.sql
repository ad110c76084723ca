-- Routes learned and lost, groups joined and left, links up and down, adverts. A line may stand for several `changes`.
CREATE TABLE route_change AS
SELECT
    routers.key AS router, seq, t,
    minute_of(t) AS minute,
    event,
    coalesce(fields['destination'], fields['group'], fields['peer'], fields['subscriber']) AS subject,
    fields['neighbour'] AS neighbour,
    coalesce(count, 1) AS changes
FROM events JOIN routers USING (router)
WHERE list_contains(getvariable('route_events'), event);
